//! What a demo saw, as a picture for the README: a grid of nodes for each moment that was kept; and the phases of a
//! rollout as `plan` told them.
//!
//! Must not draw what was not seen, or not said.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use chrono::DateTime;
use serde_json::Value;

use super::AGENTS;
use super::screen::Cell;

/// Size of a node, and the way to the next one.
const NODE: usize = 14;
const STEP: usize = 18;
/// Nodes in a row.
const ROW: usize = 24;
const WIDTH: usize = 560;

/// The picture.
pub fn of(kept: &[(String, Vec<Vec<Cell>>)]) -> String {
    let mut colours: BTreeMap<String, &str> = BTreeMap::new();
    let mut next = ["#4a7ebb", "#3c9d6b", "#8a6bbf"].into_iter();
    let mut body = String::new();
    let mut y = 24;
    for (caption, agents) in kept {
        let _ = writeln!(body, "<text x=\"16\" y=\"{y}\" class=\"caption\">{caption}</text>");
        y += 10;
        for (name, nodes) in AGENTS.iter().zip(agents) {
            for (at, cell) in nodes.iter().enumerate() {
                let (left, top) = (112 + at % ROW * STEP, y + at / ROW * STEP);
                let (fill, mark) = match cell {
                    Cell::Runs(version) => {
                        (*colours.entry(version.clone()).or_insert_with(|| next.next().unwrap_or("#777777")), "")
                    }
                    Cell::Crashes => ("#c0392b", "✕"),
                    Cell::Starting | Cell::Going => ("#d9a441", ""),
                    Cell::Missing => ("#cccccc", ""),
                };
                let square = format!("width=\"{NODE}\" height=\"{NODE}\" rx=\"3\" fill=\"{fill}\"");
                let _ = writeln!(body, "<rect x=\"{left}\" y=\"{top}\" {square}/>");
                if !mark.is_empty() {
                    let (x, y) = (left + NODE / 2, top + 11);
                    let _ = writeln!(body, "<text x=\"{x}\" y=\"{y}\" class=\"mark\">{mark}</text>");
                }
            }
            let _ = writeln!(body, "<text x=\"16\" y=\"{}\" class=\"name\">{name}</text>", y + 11);
            y += nodes.len().div_ceil(ROW) * STEP + 6;
        }
        y += 24;
    }
    let mut left = 16;
    let versions = colours.iter().map(|(version, colour)| (version.as_str(), *colour));
    for (what, colour) in versions.chain([("crashes", "#c0392b")]) {
        let _ = writeln!(
            body,
            "<rect x=\"{left}\" y=\"{}\" width=\"{NODE}\" height=\"{NODE}\" rx=\"3\" fill=\"{colour}\"/>\n\
            <text x=\"{}\" y=\"{y}\" class=\"name\">{what}</text>",
            y - 11,
            left + STEP
        );
        left += STEP + 8 * what.len() + 12;
    }
    page("60 nodes in three moments of `make demo BAD=1`", y + 16, &body)
}

fn page(title: &str, height: usize, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
        height=\"{height}\">\n<title>{title}</title>\n<style>\n\
        text {{ font-family: sans-serif; fill: #333; }}\n.caption {{ font-size: 14px; }}\n\
        .name {{ font-size: 12px; fill: #666; }}\n.mark {{ font-size: 10px; fill: #fff; text-anchor: middle; }}\n\
        </style>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// Size of a node among the phases, and the way to the next one.
const SMALL: usize = 7;
const SMALL_STEP: usize = 8;
/// Pictures beside one another.
const BESIDE: usize = 3;

/// A rollout as `plan -o json` tells it: for each batch the nodes of each zone, who has it, and who gets it now.
pub fn phases(plan: &Value, zones: &BTreeMap<&str, Vec<String>>) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let at = |batch: &Value| DateTime::parse_from_rfc3339(&text(&batch["at"])).expect("a time");
    let batches = list(&plan["batches"]);
    let begin = batches.first().map(at).expect("a batch");
    let mut done: BTreeSet<String> = BTreeSet::new();
    let (mut body, mut bottom) = (String::new(), 0);
    for (number, batch) in batches.iter().enumerate() {
        let now: BTreeSet<String> = list(&batch["nodes"]).iter().map(|node| text(&node["node"])).collect();
        let (left, top) = (16 + number % BESIDE * 180, 20 + number / BESIDE * 58);
        let who = match (batch["canaries"] == true, now.len()) {
            (true, _) => "canary",
            (false, 1) => "node",
            (false, _) => "nodes",
        };
        let since = (at(batch) - begin).num_seconds();
        let after = if since < 120 { format!("{since} s") } else { format!("{} min {} s", since / 60, since % 60) };
        let caption = format!("after {after}: {} {who}", now.len());
        let _ = writeln!(body, "<text x=\"{left}\" y=\"{top}\" class=\"name\">{caption}</text>");
        for (row, (zone, nodes)) in zones.iter().enumerate() {
            let y = top + 6 + row * (SMALL_STEP + 3);
            let _ = writeln!(body, "<text x=\"{left}\" y=\"{}\" class=\"name\">{zone}</text>", y + SMALL);
            for (column, node) in nodes.iter().enumerate() {
                let fill = match (now.contains(node), done.contains(node)) {
                    (true, _) => "#d9a441",
                    (false, true) => "#3c9d6b",
                    (false, false) => "#4a7ebb",
                };
                let x = left + 14 + column * SMALL_STEP;
                let square = format!("width=\"{SMALL}\" height=\"{SMALL}\" rx=\"2\" fill=\"{fill}\"");
                let _ = writeln!(body, "<rect x=\"{x}\" y=\"{y}\" {square}/>");
            }
        }
        done.extend(now);
        bottom = top + 58;
    }
    let legend = "blue: as before; yellow: replaced now; green: has the new one. Rows: zones a, b, c";
    let _ = writeln!(body, "<text x=\"16\" y=\"{bottom}\" class=\"name\">{legend}</text>");
    page("the batches of a rollout with a canary, zone by zone, as `plan` tells them", bottom + 16, &body)
}
