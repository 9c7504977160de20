//! Whole rollouts of a PrometheusJmxExporter as text: a script in `scripts/`, from a spec and a list of events, and
//! beside it the log of all that the operator did and said, second by second. How scripts run, `sim` says.
//!
//! Must not decide anything.

mod helper;
mod operator;

#[test]
fn every_script_is_told_as_its_log_has_it_and_ends_the_same_in_any_order() {
    crate::sim::check::<operator::Operator>("jmx_exporter/goldens/scripts");
}
