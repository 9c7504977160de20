//! OneAgent Operator: keeps a monitoring agent on the right nodes, at the right version, and can always say why.
//!
//! # The house
//!
//! ```text
//!  main ─▶ cli ─┬─▶ oneagent ─┬─▶ rollout      what to replace now, and what is waited for (pure; knows no kind)
//!               │             ├─▶ dynatrace    the vendor's API: client, one poller per environment
//!               │             ├─▶ kernel       effects, for any kind: the frame of a reconcile, watches, writes
//!               │             │                (kernel ─▶ rollout: guard and ledger, the last check of a deletion)
//!               │             ├─▶ fleet        what watches show and users ask, as the engine wants it (pure)
//!               │             ├─▶ openshift    what differs on OpenShift: SCCs, proxy, certificates (pure)
//!               │             ├─▶ k8s          what is known of Kubernetes: read types, watches, nodes, drift (pure)
//!               │             └─▶ api          the types users hold
//!               ├─▶ config_watcher           another kind, on the same rooms but dynatrace
//!               ├─▶ jmx_exporter             another one: a container of ours joins a Pod and has its JVM export
//!               ├─▶ daemonset_rollout        another one: another owner's DaemonSet, by the engine of OneAgent
//!               ├─▶ manager ─▶ stack         another one: a whole stack is started in order (stack: what and when;
//!               │             └─▶ pki          pki: certificates, made and read)
//!               └─▶ telemetry                  logs, metrics, probes; beside all of them clock and backoff
//!  bin/kubectl-oneagent ─▶ cli::plugin           a second program: what a person sees of it, and how they steer it
//!  olm ─▶ api                                  what an installation consists of (pure); for `generate` alone
//!  attach                                      what that container does, alone beside a JVM (jmx_exporter ─▶ attach:
//!                                              what it says, and which configurations it refuses)
//!  cli::plugin ─▶ simulate ─▶ oneagent, sim     what a policy does to a fleet in memory (pure)
//!  sim                                         a small world on a virtual clock: of tests and of simulate (pure)
//!  page                                        a fleet as a browser shows it: a file, or live (pure)
//! ```
//!
//! A kind is what implements [`kernel::kind::Kind`]: its package, its objects, and the steps of a reconcile.
//! [`kernel::operator`] has their order and all that they share: what is refused, memory before action, the status,
//! when to reconcile again. [`kernel::runtime`] brings watch, queue, pace and back-off, and drops what was kept of an
//! object when it is gone. A package is a row ([`api::PACKAGES`]): name, rights, samples, texts; bundle, catalog and
//! manifests are made of it.
//!
//! A reconcile visits a kind's files in this order: `resolve` (what does the spec mean?) → `observe` (what is
//! there?) → `plan` (what is to be done?) → `act` (do it) → `status` (say so, of what was done). A OneAgent's `plan`
//! makes `places` of nodes and Pods, judges each Pod's `revision`, and hands them to the engine. Only `observe` and
//! `act` touch the cluster or the vendor; the rest is a function of its arguments. For a ConfigWatcher, `change` (what
//! of the ConfigMap has reached the Pods?) takes the place of OneAgent's `version`, and places are replicas of
//! workloads instead of nodes. For a PrometheusJmxExporter places are Pods that stay: `judge` reads from a Pod's own
//! spec and status what was done to it, and a step is a container that joins it.
//!
//! # Invariants
//!
//! 1. `api`, `fleet`, `k8s`, `openshift`, `page`, `rollout`, `sim`, `simulate`, `stack`, `olm`, and each file of a kind
//!    that says "Pure" at its top are synchronous: no client, no clock, no environment, no log. No two files of a room
//!    use one another. A test reads the sources and holds this.
//! 2. `kernel` writes all that is written, with one field manager per package. The user's spec is never
//!    written.
//! 3. The same inputs give a byte-identical plan, and a plan applied twice writes nothing the second time.
//! 4. Waiting is data (`rollout::WaitingOn`, a requeue), never an error. A reconcile never sleeps and never waits for a
//!    Pod or for the vendor.
//! 5. The budget is checked twice, by the plan and, with a count of its own, by `rollout::guard` in `kernel::pods`.
//! 6. Everything needed to go on after a crash is in the cluster: in the status (`rollout.memory`), in the DaemonSet's
//!    record (one annotation of it), and in a note of the nodes that have an agent.
//! 7. What is kept of one object between two reconciles lies in its state and is dropped with the object, also when
//!    its deletion was not seen. A watch that ends, ends the process: what it feeds would stay as it is.
//! 8. A secret's bytes never reach `Debug`, a log, an Event, a status or an error text.
//! 9. Every condition exists from the first visit, and every reason says what to do.
//! 10. Not knowing is never a reason to delete: an agent whose version is not reported yet is left alone. An outage is
//!     no verdict: what the registry, a webhook or the vendor keep from starting rejects no version.
//!
//! # Words
//!
//! *Place*: where one agent belongs; a node, for a DaemonSet. *Occupant*: the Pod that is there. *Revision*: what it
//! was made from; for a OneAgent its version and the hash of its template. *Standing*: how that relates to the desired
//! one, as the kind judges it; *outdated*: to be replaced. *Budget*: how many selected places may lack an available
//! agent because of us. *Cause*: why a place lacks one; its *bucket* is the name under which the status counts.
//! *Workload*: creates its Pods again under other names: only their number is known, and budgets are per workload.
//! *Touched*: a place whose agent the rollout replaced; it takes from the budget until it has an available agent again.
//! *Ledger*: what this process replaced and has not seen back. *Placement*: selector, affinity, tolerations; applied at
//! once and never in the hash. *Canary*: a place that gets a revision first. *Calendar*: windows and blackouts.

pub mod api;
pub mod attach;
pub mod backoff;
pub mod cli;
pub mod clock;
pub mod config_watcher;
pub mod daemonset_rollout;
pub mod dynatrace;
pub mod fleet;
pub mod jmx_exporter;
pub mod k8s;
pub mod kernel;
pub mod manager;
pub mod olm;
pub mod oneagent;
pub mod openshift;
pub mod page;
pub mod pki;
pub mod rollout;
pub mod sim;
pub mod simulate;
pub mod stack;
pub mod telemetry;
