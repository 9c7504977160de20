//! The terminal: how wide it is, what it can show, and text with styles on it.
//!
//! Must not choose words.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::ops::Range;

use anstream::AutoStream;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::cli::commands;
use crate::fleet::finding::{Finding, Kind};

/// Columns where their number is unknown.
const WIDTH: u16 = 100;
/// Nothing is cut to less.
const NARROWEST: u16 = 20;
/// The style of something to type.
const COMMAND: Style = Style::new().fg(Color::Cyan);

/// Where text is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    pub(super) width: u16,
    /// Whether it shows more than ASCII.
    pub(super) is_unicode: bool,
    /// Whether a person reads it as it comes.
    pub(super) is_terminal: bool,
    /// Whether it can be drawn on, line by line.
    pub(super) has_cursor: bool,
    pub(super) color: clap::ColorChoice,
}

impl Screen {
    /// Standard output.
    #[expect(clippy::disallowed_methods, reason = "the command line")]
    pub(super) fn of(color: clap::ColorChoice) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let size = || crossterm::terminal::size().ok().map(|(width, _)| width).filter(|_| is_terminal);
        let width = variable("COLUMNS").and_then(|columns| columns.parse().ok()).or_else(size).unwrap_or(WIDTH);
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| variable(name)).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let is_unicode = locale.contains("utf-8") || locale.contains("utf8");
        let has_cursor = is_terminal && variable("TERM").is_none_or(|term| term != "dumb");
        Self { width: width.max(NARROWEST), is_unicode, is_terminal, has_cursor, color }
    }

    /// Prints a line; the error says that it has no reader.
    pub(super) fn line(self, line: Line<'_>) -> std::io::Result<()> {
        self.write(std::iter::once(line))
    }

    /// Prints lines; those that are too wide go on in the next one. What is piped is not folded.
    pub(super) fn print<'l>(self, lines: impl IntoIterator<Item = Line<'l>>) {
        // Where the reader reads no further, printing ends.
        let _ = self.write(lines);
    }

    fn write<'l>(self, lines: impl IntoIterator<Item = Line<'l>>) -> std::io::Result<()> {
        let choice = match self.color {
            clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
            clap::ColorChoice::Always => anstream::ColorChoice::AlwaysAnsi,
            clap::ColorChoice::Never => anstream::ColorChoice::Never,
        };
        let mut out = AutoStream::new(std::io::stdout(), choice);
        out.write_all(self.text(lines).as_bytes())?;
        out.flush()
    }

    /// Lines as they are printed, with all styles.
    pub(super) fn text<'l>(self, lines: impl IntoIterator<Item = Line<'l>>) -> String {
        let mut text = String::new();
        for line in lines {
            for line in self.shown(line) {
                write_line(&mut text, &line);
            }
        }
        text
    }

    /// A line as this screen shows it: with its commands as they are to be typed, in as many lines as it takes.
    pub(super) fn shown(self, mut line: Line<'_>) -> Vec<Line<'_>> {
        for span in &mut line.spans {
            let typed = commands::typed(&span.content).into_owned();
            span.content = if self.is_unicode { typed } else { typed.replace('…', "...") }.into();
        }
        self.folded(line)
    }

    /// A line in as many as it takes; each command stays in one, to be copied.
    fn folded(self, line: Line<'_>) -> Vec<Line<'_>> {
        let width = usize::from(self.width);
        if !self.is_terminal || line.width() <= width || line.style == COMMAND {
            return vec![line];
        }
        let style = line.style.patch(line.spans.last().map(|span| span.style).unwrap_or_default());
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        let text = unbreakable(&text);
        let indent = " ".repeat(text.len() - text.trim_start().len() + 2);
        let options = textwrap::Options::new(width).subsequent_indent(&indent);
        // Names have hyphens.
        let options = options.word_splitter(textwrap::WordSplitter::NoHyphenation).break_words(false);
        textwrap::wrap(&text, options).into_iter().map(|one| Line::styled(one.replace(TIED, " "), style)).collect()
    }
}

/// A blank at which no line ends.
const TIED: char = '\u{a0}';

/// A text with such blanks within its commands.
fn unbreakable(text: &str) -> String {
    let (mut tied, mut done) = (String::new(), 0);
    for Range { start, end } in commands::found(text) {
        tied.push_str(&text[done..start]);
        tied.push_str(&text[start..end].replace(' ', TIED.encode_utf8(&mut [0; 4])));
        done = end;
    }
    tied + &text[done..]
}

fn write_line(text: &mut String, line: &Line<'_>) {
    for Span { content, style } in &line.spans {
        let style = line.style.patch(*style);
        let (on, off) = codes(style);
        let _ = write!(text, "{on}{content}{off}");
    }
    while text.ends_with(' ') {
        text.pop();
    }
    text.push('\n');
}

/// How a terminal is told to begin and to end a style.
fn codes(style: Style) -> (String, &'static str) {
    let colour = style.fg.and_then(|colour| match colour {
        Color::Red => Some("31"),
        Color::Green => Some("32"),
        Color::Yellow => Some("33"),
        Color::Blue => Some("34"),
        Color::Cyan => Some("36"),
        _ => None,
    });
    let weight = [(Modifier::BOLD, "1"), (Modifier::DIM, "2")];
    let weight = weight.iter().filter(|(one, _)| style.add_modifier.contains(*one)).map(|(_, code)| *code);
    let all: Vec<&str> = weight.chain(colour).collect();
    if all.is_empty() { (String::new(), "") } else { (format!("\u{1b}[{}m", all.join(";")), "\u{1b}[0m") }
}

/// Says something beside what was asked for. Where it is not read, that is no failure.
pub(super) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", commands::typed(text));
}

/// A finding: its conclusion, and what helps.
pub(super) fn finding(finding: &Finding) -> Vec<Line<'static>> {
    let Finding { who, what, remedy, kind } = finding;
    let style = if *kind == Kind::Act { Style::new().fg(Color::Red) } else { Style::new() };
    let mut lines = vec![Line::from(vec![
        Span::styled(who.clone(), Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(": "),
        Span::styled(what.clone(), style),
    ])];
    lines.extend(remedy.iter().map(|remedy| command(format!("    {remedy}"))));
    lines
}

/// Something to type.
pub(super) fn command(text: String) -> Line<'static> {
    Line::styled(text, COMMAND)
}

/// A table: each column as wide as its widest cell.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> Vec<Line<'static>> {
    let cells = |row: usize, column: usize| if row == 0 { head[column] } else { &rows[row - 1][column] };
    let wide = |column: usize| (0..=rows.len()).map(|row| Span::raw(cells(row, column)).width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(wide).collect();
    let line = |row: usize| {
        let mut text = String::new();
        for (column, width) in widths.iter().enumerate() {
            let cell = cells(row, column);
            let gap = width - Span::raw(cell).width();
            let _ = write!(text, "{cell}{}  ", " ".repeat(gap));
        }
        let style = if row == 0 { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
        Line::styled(text.trim_end().to_owned(), style)
    };
    (0..=rows.len()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: Screen =
        Screen { width: 40, is_unicode: true, is_terminal: true, has_cursor: true, color: clap::ColorChoice::Never };

    #[test]
    fn a_command_within_a_text_stays_in_one_line() {
        let said = "it failed; to try it again: kubectl oneagent -n n retry a (spec.rollout.retry: 1); a newer one";
        assert_eq!(
            NARROW.text([Line::raw(said)]),
            "it failed; to try it again:\n  kubectl oneagent -n n retry a\n  (spec.rollout.retry: 1); a newer one\n"
        );
        let wide = "kubectl -n dynatrace patch oneagent agent --type=merge -p '{}'";
        assert_eq!(NARROW.text([Line::raw(format!("or: {wide}; done"))]), format!("or:\n  {wide};\n  done\n"));
    }

    #[test]
    fn what_shows_ascii_alone_gets_ascii_alone() {
        let ascii = Screen { is_unicode: false, ..NARROW };
        assert_eq!(ascii.text([Line::raw("reading a …")]), "reading a ...\n");
        assert_eq!(NARROW.text([Line::raw("reading a …")]), "reading a …\n");
    }
}
