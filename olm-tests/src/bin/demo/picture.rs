//! What a demo saw, as a picture for the README: a grid of nodes for each moment that was kept.
//!
//! Must not draw what was not seen.

use std::collections::BTreeMap;
use std::fmt::Write as _;

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
    let height = y + 16;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
        height=\"{height}\">\n<title>60 nodes in three moments of `make demo BAD=1`</title>\n<style>\n\
        text {{ font-family: sans-serif; fill: #333; }}\n.caption {{ font-size: 14px; }}\n\
        .name {{ font-size: 12px; fill: #666; }}\n.mark {{ font-size: 10px; fill: #fff; text-anchor: middle; }}\n\
        </style>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}
