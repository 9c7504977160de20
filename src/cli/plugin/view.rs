//! `status -w` in a terminal: a fleet as it changes, node by node.
//!
//! Reads only: no key changes anything in the cluster. Leaves the terminal as it was, whatever ends it. Must not judge
//! a node: that is the operator's own code.

use std::pin::pin;

use crossterm::event::{Event, EventStream, KeyCode, KeyEventKind, KeyModifiers};
use futures::StreamExt;
use ratatui::Terminal;
use ratatui::backend::Backend;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::live::Judged;
use super::object::Object;
use super::overview::Overview;
use super::paint::{Screen, finding};
use super::watched::{AGAIN, OPERATOR, Watched, rest};
use super::{Cx, WELL};
use crate::cli::explain::operator;
use crate::fleet::finding::Finding;
use crate::kernel::Reached;

/// Whether there is an operator is not waited for longer.
const ANSWER: std::time::Duration = std::time::Duration::from_secs(2);

/// What is shown, and what the user chose.
struct View {
    shown: usize,
    /// The node that is explained.
    chosen: Option<usize>,
    first: Option<Finding>,
}

/// Shows objects until the user ends it.
pub(super) async fn view(cx: &Cx, reached: &Reached, found: &[Object]) -> Result<u8, String> {
    let shown: Vec<&Object> = found.iter().filter(|object| object.kind.of_nodes().is_ok()).collect();
    let Some(first) = shown.first() else {
        return Err("a ConfigWatcher's Pods belong to no node: use status without -w".to_owned());
    };
    let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
    let (mut terminate, mut hangup) = (listen(SignalKind::terminate())?, listen(SignalKind::hangup())?);
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminal = ratatui::try_init().map_err(|error| format!("the terminal cannot be used: {error}"))?;
    let mut watched = Watched::of(reached, first.kind, &first.namespace());
    let (mut view, mut events) = (View { shown: 0, chosen: None, first: None }, EventStream::new());
    let mut asked: Option<Instant> = None;
    let ended = loop {
        let object = shown[view.shown];
        if asked.is_none_or(|at| at.elapsed() > OPERATOR) {
            let of = (object.kind.operator(), Some(object.whole.metadata.namespace.as_deref().unwrap_or_default()));
            // A silent API server must not hold up the keyboard for long.
            let down = tokio::time::timeout(ANSWER, operator(&reached.client, of, cx.clock.now())).await;
            view.first = down.unwrap_or_default();
            asked = Some(Instant::now());
        }
        let began = Instant::now();
        if let Some(Err(refused)) = watched.trouble() {
            break Err(refused);
        }
        let count = match draw(&mut terminal, cx, &watched, (&shown, &view)) {
            Ok(count) => count,
            Err(error) => break Err(format!("the terminal cannot be written: {error}")),
        };
        let rest = rest(began.elapsed());
        let before = view.shown;
        let ended = {
            let mut settled = pin!(async {
                tokio::time::sleep_until(began + rest).await;
                tokio::select! {
                    () = watched.changed.notified() => {}
                    () = tokio::time::sleep(AGAIN) => {}
                }
            });
            let mut is_pressed = false;
            loop {
                tokio::select! {
                    () = &mut settled => break None,
                    // A key that repeats draws no more often than the fleet does.
                    () = tokio::time::sleep_until(began + rest), if is_pressed => break None,
                    _ = terminate.recv() => break Some(Ok(())),
                    _ = hangup.recv() => break Some(Ok(())),
                    _ = interrupt.recv() => break Some(Ok(())),
                    event = events.next() => match event {
                        Some(Ok(event)) if pressed(&event, &mut view, (count, shown.len())) => is_pressed = true,
                        Some(Ok(_)) | None => break Some(Ok(())),
                        Some(Err(error)) => break Some(Err(format!("the keyboard cannot be read: {error}"))),
                    },
                }
            }
        };
        if let Some(ended) = ended {
            break ended;
        }
        if view.shown != before {
            let next = shown[view.shown];
            (watched, asked) = (Watched::of(reached, next.kind, &next.namespace()), None);
        }
    };
    ratatui::restore();
    ended?;
    let (fleet, object) = (watched.fleet(), shown[view.shown]);
    Ok(match watched.object(&fleet, &object.name()) {
        Some(now) => now.code(),
        None if watched.is_listed() => WELL,
        None => object.code(),
    })
}

/// Takes what was pressed; returns whether to go on.
fn pressed(event: &Event, view: &mut View, (nodes, objects): (usize, usize)) -> bool {
    let Event::Key(key) = event else { return true };
    if key.kind == KeyEventKind::Release {
        return true;
    }
    let last = nodes.saturating_sub(1);
    let at = view.chosen.unwrap_or(0);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Right | KeyCode::Down => view.chosen = Some(view.chosen.map_or(0, |at| (at + 1).min(last))),
        KeyCode::Left | KeyCode::Up => view.chosen = Some(at.saturating_sub(1)),
        KeyCode::Home => view.chosen = Some(0),
        KeyCode::End => view.chosen = Some(last),
        KeyCode::Tab => (view.shown, view.chosen) = ((view.shown + 1) % objects, None),
        _ => {}
    }
    true
}

/// Draws it; returns how many nodes there are.
fn draw<B: Backend>(
    terminal: &mut Terminal<B>,
    cx: &Cx,
    watched: &Watched,
    (shown, view): (&[&Object], &View),
) -> Result<usize, B::Error> {
    let now = cx.clock.now();
    let fleet = watched.fleet();
    let name = shown[view.shown].name();
    let object = watched.object(&fleet, &name);
    let (overview, chosen, count) = match &object {
        Some(object) => {
            let judged = Judged::of(fleet, object);
            let looks = judged.looks(now);
            let overview = Overview::of(object, &looks, |node| judged.remedy(node, now), view.first.clone());
            let nodes = overview.nodes();
            let chosen = view.chosen.and_then(|at| nodes.get(at).or(nodes.last())).cloned();
            let said = chosen.and_then(|node| Some((node.clone(), judged.node(&node, now)?)));
            (Some(overview), said, nodes.len())
        }
        None => (None, None, 0),
    };
    let trouble = watched.trouble().and_then(Result::ok);
    terminal.draw(|frame| {
        let area = frame.area();
        let screen = Screen { width: area.width, ..cx.screen };
        let rows = usize::from(area.height.saturating_sub(12)).max(1);
        let mut lines = match &overview {
            Some(overview) => overview.lines(screen, now, (rows, chosen.as_ref().map(|(node, _)| &**node))),
            None => vec![Line::raw(format!("reading {name} …"))],
        };
        if let Some((node, said)) = &chosen {
            lines.push(Line::raw(""));
            lines.extend(finding(&Finding { who: node.to_string(), ..said.clone() }));
        }
        if let Some(trouble) = trouble {
            lines.push(Line::styled(trouble, Style::new().fg(Color::Red)));
        }
        let others = if shown.len() > 1 { "  Tab: another object" } else { "" };
        lines.push(Line::raw(""));
        let keys = format!("arrows: a node  q: end{others}");
        lines.push(Line::styled(keys, Style::new().add_modifier(Modifier::DIM)));
        let lines: Vec<Line<'_>> = lines.into_iter().flat_map(|line| screen.shown(line)).collect();
        frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
        if cx.screen.color == clap::ColorChoice::Never {
            frame.buffer_mut().content.iter_mut().for_each(|cell| cell.fg = Color::Reset);
        }
    })?;
    Ok(count)
}
