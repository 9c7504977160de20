//! The page: a fleet by zone, node by node, as a browser shows it; from a file, or live.
//!
//! Pure: it is handed a picture. Plain HTML, CSS and JavaScript, without anything from another host. Must not judge a
//! node, nor change anything in a cluster.

pub mod picture;

use crate::fleet::cells::Cell;
use picture::Picture;

/// The document, with marks where style, data and script go.
const DOCUMENT: &str = include_str!("page.html");
/// Its style.
pub const STYLE: &str = include_str!("page.css");
/// Its script.
pub const SCRIPT: &str = include_str!("page.js");

/// The colour of a cell: told apart also by those who see few colours; a glyph says the same.
#[must_use]
pub fn colour(cell: Cell) -> &'static str {
    match cell {
        Cell::New => "#009e73",
        Cell::Proving => "#56b4e9",
        Cell::Starting => "#f0e442",
        Cell::Old => "#0072b2",
        Cell::Failing => "#d55e00",
        Cell::Missing => "#999999",
    }
}

/// One file that shows a picture, without a server.
pub fn document(picture: &Picture) -> Result<String, serde_json::Error> {
    // No text in the data may end the element that it lies in.
    let data = serde_json::to_string(picture)?.replace('<', "\\u003c");
    let data = format!("<script type=\"application/json\" id=\"data\">{data}</script>");
    Ok(DOCUMENT
        .replace("<!--style-->", &format!("<style>\n{STYLE}</style>"))
        .replace("<!--data-->", &data)
        .replace("<!--script-->", &format!("<script>\n{SCRIPT}</script>")))
}

/// The document of a server, which serves style and script by name and the data as events.
#[must_use]
pub fn served() -> String {
    DOCUMENT
        .replace("<!--style-->", "<link rel=\"stylesheet\" href=\"page.css\">")
        .replace("<!--data-->", "")
        .replace("<!--script-->", "<script src=\"page.js\" defer></script>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_in_the_data_ends_the_data() {
        let picture = Picture { title: "</script><script>alert(1)</script>".to_owned(), ..Picture::default() };
        let page = document(&picture).unwrap();
        assert_eq!(page.matches("</script>").count(), 2, "data and script");
        assert!(!page.contains("alert(1)</script>"));
    }

    #[test]
    fn the_page_is_small_and_takes_nothing_from_elsewhere() {
        let size = DOCUMENT.len() + STYLE.len() + SCRIPT.len();
        assert!(size < 60 * 1024, "{size} bytes");
        for text in [DOCUMENT, STYLE, SCRIPT] {
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("@import"), "{text}");
        }
        assert!(!served().contains("<!--"));
    }
}
