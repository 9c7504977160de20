//! DaemonSetRollout on a real control plane: somebody else's DaemonSet, whose Pods its real controller makes.

mod basics;
