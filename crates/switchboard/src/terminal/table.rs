//! Tables for people: a heading, and columns that are as wide as their longest cell.

use std::io::Write;

use super::style::{Role, Style};
use switchboard_acp::display::visible_line;

/// Spaces between two columns.
const GAP: usize = 2;

/// A table that is built row by row and written as a whole, because its columns are as wide as the longest cell.
#[derive(Debug)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Table { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Appends a row. Cells may hold text of agents: characters that a terminal would act upon are made visible.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(|cell| visible_line(&cell)).collect());
    }

    /// Returns whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes headings and rows; nothing at all where there are no rows.
    pub(crate) fn write(&self, style: Style, output: &mut dyn Write) -> std::io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let headings: Vec<String> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
        let widths: Vec<usize> = (0..headings.len())
            .map(|column| {
                let cells = self.rows.iter().chain([&headings]).filter_map(|row| row.get(column));
                cells.map(|cell| width(cell)).max().unwrap_or_default()
            })
            .collect();
        writeln!(output, "{}", style.paint(Role::Strong, line(&headings, &widths)))?;
        for row in &self.rows {
            writeln!(output, "{}", line(row, &widths))?;
        }
        Ok(())
    }
}

/// Returns the columns that a text takes in a terminal.
fn width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// Returns one line without spaces at its end.
fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, column) in cells.iter().zip(widths) {
        line.push_str(cell);
        line.push_str(&" ".repeat(column.saturating_sub(width(cell)) + GAP));
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(table: &Table, style: Style) -> String {
        let mut output = Vec::new();
        table.write(style, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let mut table = Table::new(&["NAME", "ROLE"]);
        assert_eq!(text(&table, Style::PLAIN), "");
        table.row(["phone".to_owned(), "answer".to_owned()]);
        table.row(["日本".to_owned(), "use".to_owned()]);
        assert_eq!(text(&table, Style::PLAIN), "NAME   ROLE\nphone  answer\n日本   use\n");
    }

    #[test]
    fn cells_cannot_act_upon_the_terminal_or_break_the_line() {
        let mut table = Table::new(&["TITLE"]);
        table.row(["\u{1B}[2Ja\nb".to_owned()]);
        assert_eq!(text(&table, Style::PLAIN), "TITLE\n␛[2Ja␊b\n");
    }
}
