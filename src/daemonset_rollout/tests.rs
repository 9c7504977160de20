//! Looks from a DaemonSet, its revisions and its Pods to what is replaced and what the status says.
//!
//! Pure: nodes, revisions and Pods are values.
