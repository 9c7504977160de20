//! Why a JVM does not export: every reason that a status counts. Each reason's doc line tells the user what to do: the
//! table of docs/jmx.md is made of these lines. The status repeats what helps where the cause does not say it.
//!
//! Must not decide which one holds.

/// Why a JVM does not export. The doc line says what to do.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    strum::Display,
    strum::EnumIter,
    strum::EnumMessage,
    strum::EnumString,
)]
pub enum Obstacle {
    /// The container has no JVM that has lived for eight seconds. Name the right one in `container`, or narrow
    /// `labelSelector`. It is looked for again after 30 seconds, and then less and less often.
    #[strum(message = "name the right container in spec.container, or narrow spec.labelSelector")]
    NoJvm,
    /// The container has several JVMs, and none is process 1: the operator cannot tell which is meant.
    #[strum(message = "run one JVM in each container, or as its process 1")]
    SeveralJvms,
    /// The JVM is OpenJ9, which has no such attach mechanism. Start it with the exporter as `-javaagent`.
    #[strum(message = "start it with the exporter as -javaagent")]
    NotHotSpot,
    /// Attaching is switched off: remove `-XX:+DisableAttachMechanism` or `-XX:-EnableDynamicAgentLoading`, or start
    /// the JVM with the exporter as `-javaagent`.
    AttachDisabled,
    /// The signal that asks a JVM for its socket would end this one: remove option `-Xrs`.
    SignalUnsafe,
    /// The runtime lacks a module that the exporter needs. The message names it. Add it where `jlink` makes the
    /// runtime.
    ModuleMissing,
    /// The container has less memory left than `minFreeMemory`: raise its limit, or lower that.
    LowMemory,
    /// `/tmp` of the JVM cannot be written: mount an emptyDir there.
    ReadOnlyTmp,
    /// The JVM's files cannot be reached: it runs in another user namespace, or with more rights than a container that
    /// joins its Pod may have.
    #[strum(message = "give it no more capabilities than its Pod names, or start it with the exporter as -javaagent")]
    NotReachable,
    /// Another process listens on `port` in the Pod: choose another.
    PortInUse,
    /// The JVM has an exporter already, which was there from its start: nothing to do, or restart the Pod without it.
    #[strum(message = "nothing to do, or restart the Pod without that exporter")]
    AlreadyExporting,
    /// The JVM was made to load the exporter before. A second load would end it. Restart the Pod.
    LoadedBefore,
    /// The JVM refused the exporter. The message quotes it, and its log says more. Restart the Pod to have it tried
    /// again.
    #[strum(message = "restart the Pod to have it tried again")]
    LoadFailed,
    /// The JVM loaded the exporter, and its endpoint does not answer: the JVM may be stalled. It is tried again after
    /// 30 seconds, and then less and less often.
    #[strum(message = "it is tried again, less and less often")]
    ScrapeFailed,
    /// The JVM exports on the previous port: an exporter cannot move. Restart the Pod.
    RestartNeeded,
    /// The exporter did not take the configuration, and the previous one is in force: the JVM's log says why. Correct
    /// the ConfigMap.
    ConfigRejected,
    /// The container was started again less than ten minutes after it had been started, and may end as soon again. It
    /// is joined once it has run for as long as the one before, or for 30 seconds. Each run that joined one of its
    /// predecessors doubles that time.
    Restarting,
    /// The kubelet of the Pod's node does not report, so the operator cannot tell what runs there. It continues once
    /// the kubelet reports: see `kubectl get nodes`.
    #[strum(message = "see kubectl get nodes")]
    KubeletSilent,
    /// The API server refuses the container that joins the Pod: Pod Security, a policy, or a missing right. The message
    /// quotes it. The operator tries again within minutes.
    #[strum(message = "let the namespace admit it; it is tried again within minutes")]
    NotAdmitted,
    /// The operator's image cannot be pulled on the Pod's node. The message says why. No other container joins the Pod
    /// meanwhile. The operator continues once the image is there.
    #[strum(message = "let the node pull the image")]
    HelperImage,
    /// The container that joined the Pod ended without a result. It is tried again after 30 seconds, and then less and
    /// less often.
    #[strum(message = "it is tried again, less and less often")]
    HelperFailed,
    /// Containers joined this one five times, or its Pod twenty times, and each stays in the Pod's spec: no other joins
    /// it. Restart the Pod to have it tried again.
    TooManyRuns,
    /// The JVM, or its container, ended within ten seconds after it loaded the exporter, or its Pod ceased to be Ready.
    /// No other JVM is attached to until the object is edited. The edit has this one tried again, too.
    Harmed,
    /// An older object selects the Pod, too, and keeps it: narrow one of the selectors.
    #[strum(message = "narrow one of the selectors")]
    OtherObject,
}

impl Obstacle {
    /// Whether it is over in a moment and needs no attention.
    #[must_use]
    pub fn is_passing(self) -> bool {
        self == Self::Restarting
    }
}
