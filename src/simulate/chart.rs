//! What came of a scenario, drawn: how many nodes were how, along the time.
//!
//! Must not add to what came of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use strum::IntoEnumIterator;

use super::outcome::AgentOutcome;
use crate::fleet::cells::Cell;
use crate::oneagent::rehearsal::Record;
use crate::page::colour;
use crate::sim::Span;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 160.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 34.0;
/// How far apart two OneAgents are.
const APART: f64 = 250.0;
/// From the bottom to the top.
const ORDER: [Cell; 6] = [Cell::New, Cell::Proving, Cell::Old, Cell::Starting, Cell::Missing, Cell::Failing];

/// The chart of OneAgents, as SVG.
#[must_use]
pub fn chart(all: &[(&AgentOutcome, &Record)]) -> String {
    let mut body = String::new();
    for (number, (outcome, record)) in all.iter().enumerate() {
        one(&mut body, outcome, record, number as f64 * APART);
    }
    let height = all.len() as f64 * APART;
    let width = LEFT + WIDTH + 20.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

fn one(body: &mut String, outcome: &AgentOutcome, record: &Record, y: f64) {
    let began = outcome.began;
    let counts = counts(record, began);
    let last = counts.last().map_or(began, |(at, _)| *at);
    // Its end is shown for a while, so that it can be seen.
    let end = last + ((last - began) / 20).max(1);
    let nodes = outcome.nodes.max(1) as f64;
    let x = |at: i64| LEFT + (at - began) as f64 / (end - began) as f64 * WIDTH;
    let bottom = y + TOP + HEIGHT;
    let height = |count: usize| bottom - count as f64 / nodes * HEIGHT;
    let title = format!("OneAgent {}: {}", outcome.name, outcome.state);
    let _ = writeln!(body, "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{}</text>", y + 18.0, escaped(&title));
    for (layer, cell) in ORDER.iter().enumerate() {
        let sum = |counts: &BTreeMap<Cell, usize>, layers: usize| -> usize {
            ORDER[..layers].iter().map(|cell| counts.get(cell).copied().unwrap_or_default()).sum()
        };
        if counts.iter().all(|(_, counts)| !counts.contains_key(cell)) {
            continue;
        }
        let (mut upper, mut lower) = (String::new(), Vec::new());
        for (number, (at, count)) in counts.iter().enumerate() {
            let until = counts.get(number + 1).map_or(end, |(next, _)| *next);
            let (top, bottom) = (height(sum(count, layer + 1)), height(sum(count, layer)));
            let _ = write!(upper, "{:.1},{top:.1} {:.1},{top:.1} ", x(*at), x(until));
            lower.push(format!("{:.1},{bottom:.1} {:.1},{bottom:.1}", x(until), x(*at)));
        }
        lower.reverse();
        let fill = colour(*cell);
        let _ = writeln!(
            body,
            "<polygon points=\"{upper}{}\" fill=\"{fill}\"><title>{cell}</title></polygon>",
            lower.join(" ")
        );
    }
    let _ = writeln!(
        body,
        "<text x=\"4\" y=\"{}\">{}</text><text x=\"4\" y=\"{bottom}\">0</text>\n<text x=\"{LEFT}\" y=\"{}\">{}</text>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} later</text>",
        y + TOP + 10.0,
        outcome.nodes,
        bottom + 16.0,
        escaped(outcome.to.as_deref().unwrap_or_default()),
        LEFT + WIDTH,
        bottom + 16.0,
        Span::seconds(last - began),
    );
    let mut at = LEFT;
    for cell in Cell::iter() {
        let _ = writeln!(
            body,
            "<rect x=\"{at}\" y=\"{0}\" width=\"10\" height=\"10\" fill=\"{1}\"/>\
             <text x=\"{2}\" y=\"{3}\">{cell}</text>",
            bottom + 26.0,
            colour(cell),
            at + 14.0,
            bottom + 35.0
        );
        at += 90.0;
    }
}

/// How many nodes were how, each time that it changed, since the last version or edit came.
fn counts(record: &Record, began: i64) -> Vec<(i64, BTreeMap<Cell, usize>)> {
    let mut now = vec![None; record.nodes.len()];
    let mut all: Vec<(i64, BTreeMap<Cell, usize>)> = Vec::new();
    for frame in &record.frames {
        for (number, cell) in &frame.cells {
            now[*number] = *cell;
        }
        let mut counts = BTreeMap::new();
        for cell in now.iter().flatten() {
            *counts.entry(*cell).or_default() += 1;
        }
        let at = frame.at.max(began);
        if all.last().is_some_and(|(last, _)| *last == at) {
            all.pop();
        }
        all.push((at, counts));
    }
    all
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
