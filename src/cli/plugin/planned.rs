//! A plan, for a person: what it says with a bar for each zone and the time of where they are, or as a drawing.
//!
//! Must not add to what the preview says.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use ratatui::text::{Line, Span};

use super::overview::{BAR, style};
use super::paint::Screen;
use super::wording::when;
use crate::fleet::cells::Cell;
use crate::fleet::preview::Preview;

/// A plan: what it says, with a bar for each zone, and times as people here say them.
pub(super) fn planned(preview: &Preview, now: DateTime<Utc>, screen: Screen) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = preview.to_string().lines().map(|line| Line::raw(line.to_owned())).collect();
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for node in preview.batches.iter().flat_map(|batch| &batch.nodes) {
        *zones.entry(node.zone.as_deref().unwrap_or_default()).or_default() += 1;
    }
    if zones.len() > 1 {
        let most = zones.values().copied().max().unwrap_or(1);
        let label = zones.keys().map(|name| name.chars().count()).max().unwrap_or(0);
        let full = if screen.is_unicode { "█" } else { "#" };
        for (zone, count) in zones {
            let bar = full.repeat((count * BAR).div_ceil(most));
            let spans = [Span::raw(format!("  {zone:label$} ")), Span::styled(bar, style(Cell::Old))];
            let count = Span::raw(format!(" {count}"));
            lines.push(Line::from(spans.into_iter().chain([count]).collect::<Vec<_>>()));
        }
    }
    if let (Some(first), true) = (preview.batches.first(), preview.restarts > 0) {
        let finish = preview.finish.as_ref().map(|finish| format!(", done {}", when(finish, now)));
        lines.push(Line::raw(format!("  begins {}{}", when(&first.at, now), finish.unwrap_or_default())));
    }
    lines
}

/// Plans, drawn: a line for each batch, along the time, as wide as it has nodes.
pub(super) fn drawing(previews: &[Preview]) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let (mut body, mut y) = (String::new(), 24);
    for preview in previews {
        let title = format!("{} {}/{}", preview.nouns.kind, preview.namespace, preview.name);
        let _ = writeln!(body, r#"<text x="12" y="{y}" font-weight="bold">{}</text>"#, escaped(&title));
        y += 22;
        let most = preview.batches.iter().map(|batch| batch.nodes.len()).max().unwrap_or(1).max(1);
        for batch in &preview.batches {
            let width = (batch.nodes.len() * 400).div_ceil(most);
            let fill = if batch.canaries { "#e69f00" } else { "#0072b2" };
            let canaries = if batch.canaries { " (canaries)" } else { "" };
            let count = batch.nodes.len();
            let _ = writeln!(
                body,
                r#"<text x="12" y="{0}">{1}</text><rect x="190" y="{2}" width="{width}" height="14" fill="{fill}"/>"#,
                y + 12,
                escaped(&batch.at),
                y + 1,
            );
            let _ = writeln!(body, r#"<text x="{}" y="{}">{count}{canaries}</text>"#, 196 + width, y + 12);
            y += 20;
        }
        let end = match &preview.finish {
            _ if preview.batches.is_empty() => format!("no {} is replaced", preview.nouns.one),
            Some(finish) => format!("finishes at {finish}"),
            None => "when it finishes is not known".to_owned(),
        };
        let _ = writeln!(body, r#"<text x="12" y="{}">{}</text>"#, y + 12, escaped(&end));
        y += 40;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"{y}\" font-family=\"sans-serif\" \
        font-size=\"13\" role=\"img\" aria-label=\"Plan of a rollout\">\n<rect width=\"760\" height=\"{y}\" \
        fill=\"white\"/>\n{body}</svg>\n"
    )
}
