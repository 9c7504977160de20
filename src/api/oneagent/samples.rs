//! Samples: OneAgents that work once the Secret exists and the placeholders are filled in. Each names the suggested
//! namespace.
//!
//! Must not combine unprivileged mode with installer mode: newer installers refuse to start so.

use crate::api::package::Sample;

/// All samples; a bundle shows the first three.
pub const SAMPLES: &[Sample] = &[
    Sample {
        file: "oneagent-dynatrace.yaml",
        title: "On every Linux node",
        yaml: r"# The smallest OneAgent that reaches every Linux node of a plain cluster, control plane included.
# First: kubectl -n dynatrace create secret generic oneagent --from-literal=apiToken=… --from-literal=paasToken=…
apiVersion: dynatrace.com/v1alpha1
kind: OneAgent
metadata:
  name: oneagent
  namespace: dynatrace
spec:
  # SaaS: https://ENVIRONMENTID.live.dynatrace.com/api   Managed: https://DOMAIN/e/ENVIRONMENTID/api
  apiUrl: https://ENVIRONMENTID.live.dynatrace.com/api
  tolerations:
    - key: node-role.kubernetes.io/control-plane
      operator: Exists
      effect: NoSchedule
    - key: node-role.kubernetes.io/master
      operator: Exists
      effect: NoSchedule
",
    },
    Sample {
        file: "oneagent-openshift.yaml",
        title: "On every node of OpenShift",
        yaml: r"# OpenShift: workers, infra and control-plane nodes. The SCC privileged is needed; OLM grants it.
# First: oc -n dynatrace create secret generic openshift --from-literal=apiToken=… --from-literal=paasToken=…
apiVersion: dynatrace.com/v1alpha1
kind: OneAgent
metadata:
  name: openshift
  namespace: dynatrace
spec:
  apiUrl: https://ENVIRONMENTID.live.dynatrace.com/api
  tolerations:
    - key: node-role.kubernetes.io/control-plane
      operator: Exists
      effect: NoSchedule
    - key: node-role.kubernetes.io/master
      operator: Exists
      effect: NoSchedule
    - key: node-role.kubernetes.io/infra
      operator: Exists
",
    },
    Sample {
        file: "oneagent-careful.yaml",
        title: "Updated with care",
        yaml: r"# A fleet that is updated with care: one node first, watched for a day; then few at a time.
# First: kubectl -n dynatrace create secret generic careful --from-literal=apiToken=… --from-literal=paasToken=…
apiVersion: dynatrace.com/v1alpha1
kind: OneAgent
metadata:
  name: careful
  namespace: dynatrace
spec:
  apiUrl: https://ENVIRONMENTID.live.dynatrace.com/api
  waitReadySeconds: 600
  # One version and no other: update: { version: 1.301.72.20250601-101010 }, if the environment offers it.
  rollout:
    canary:
      nodes: 1
      soak: 24h
    maxUnavailable: 2%
    minReadySeconds: 60
",
    },
    Sample {
        file: "oneagent-desk.yaml",
        title: "On infra nodes, of another brand",
        yaml: r#"# A DESK-branded environment: same kind, another address and image. Infra nodes only, with limits.
# First: kubectl -n dynatrace create secret generic desk --from-literal=apiToken=… --from-literal=paasToken=…
apiVersion: dynatrace.com/v1alpha1
kind: OneAgent
metadata:
  name: desk
  namespace: dynatrace
spec:
  apiUrl: https://ENVIRONMENTID.desk.example/api
  image: registry.desk.example/oneagent:latest
  nodeSelector:
    node-role.kubernetes.io/infra: ""
  tolerations:
    - key: node-role.kubernetes.io/infra
      operator: Exists
  resources:
    requests:
      cpu: 100m
      memory: 512Mi
    limits:
      cpu: 300m
      memory: 1.5Gi
  rollout:
    maxUnavailable: 5%
    minReadySeconds: 10
"#,
    },
    Sample {
        file: "oneagent-read-only-hosts.yaml",
        title: "On hosts with a read-only root",
        yaml: r#"# Hosts whose root file system is read-only: Container-Optimized OS, Flatcar, Bottlerocket.
# First: kubectl -n dynatrace create secret generic read-only-hosts --from-literal=apiToken=… --from-literal=paasToken=…
apiVersion: dynatrace.com/v1alpha1
kind: OneAgent
metadata:
  name: read-only-hosts
  namespace: dynatrace
spec:
  apiUrl: https://ENVIRONMENTID.live.dynatrace.com/api
  env:
    - name: ONEAGENT_ENABLE_VOLUME_STORAGE
      value: "true"
"#,
    },
    Sample {
        file: "oneagent-fast.yaml",
        title: "Updated at once",
        yaml: r"# A fleet of which half may be without an agent: a test cluster, say.
# First: kubectl -n dynatrace create secret generic fast --from-literal=apiToken=… --from-literal=paasToken=…
apiVersion: dynatrace.com/v1alpha1
kind: OneAgent
metadata:
  name: fast
  namespace: dynatrace
spec:
  apiUrl: https://ENVIRONMENTID.live.dynatrace.com/api
  rollout:
    maxUnavailable: 50%
",
    },
    Sample {
        file: "oneagent-nights.yaml",
        title: "Updated outside of business hours",
        yaml: r#"# Agents are replaced at night and on Sundays only, and never at the turn of the year.
# First: kubectl -n dynatrace create secret generic nights --from-literal=apiToken=… --from-literal=paasToken=…
apiVersion: dynatrace.com/v1alpha1
kind: OneAgent
metadata:
  name: nights
  namespace: dynatrace
spec:
  apiUrl: https://ENVIRONMENTID.live.dynatrace.com/api
  rollout:
    windows:
      - days: [Mon, Tue, Wed, Thu]
        start: "22:00"
        duration: 7h
        timeZone: Europe/Vienna
      - days: [Sun]
        start: "00:00"
        duration: 24h
        timeZone: Europe/Vienna
    blackouts:
      - from: "2026-12-20T00:00:00Z"
        to: "2027-01-07T00:00:00Z"
        reason: no changes at the turn of the year
"#,
    },
    Sample {
        file: "oneagent-zones.yaml",
        title: "Updated zone by zone",
        yaml: r"# One zone after the other, a quarter of each at a time, a tenth of all at most; one failure stops it.
# First: kubectl -n dynatrace create secret generic zones --from-literal=apiToken=… --from-literal=paasToken=…
apiVersion: dynatrace.com/v1alpha1
kind: OneAgent
metadata:
  name: zones
  namespace: dynatrace
spec:
  apiUrl: https://ENVIRONMENTID.live.dynatrace.com/api
  rollout:
    maxUnavailable: 10%
    maxUnavailablePerZone: 25%
    order: ZoneByZone
    maxFailures: 1
",
    },
    Sample {
        file: "oneagent-late-ring.yaml",
        title: "Updated a week after the others",
        yaml: r"# The later of two rings, a week after the one whose OneAgent has nodeSelector ring: early.
# First: kubectl -n dynatrace create secret generic late-ring --from-literal=apiToken=… --from-literal=paasToken=…
apiVersion: dynatrace.com/v1alpha1
kind: OneAgent
metadata:
  name: late-ring
  namespace: dynatrace
spec:
  apiUrl: https://ENVIRONMENTID.live.dynatrace.com/api
  nodeSelector:
    ring: late
  update:
    minimumAge: 168h
  rollout:
    canary:
      nodes: 5%
      soak: 1h
",
    },
];
