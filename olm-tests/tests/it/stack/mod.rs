//! Managers: a stack starts in order, and stays as the spec has it.

mod changes;
mod order;
mod stores;

use olm_tests::lab::Lab;

/// A lab whose stack is complete.
async fn standing(name: &str, masters: usize, workers: usize) -> Lab<'static> {
    let lab = Lab::of_stacks(name, masters, workers).await;
    lab.cluster.apply(&lab.stack().to_string());
    lab.stack_says("Ready", "AllServing").await;
    lab
}
