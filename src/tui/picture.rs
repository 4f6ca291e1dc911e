//! A frame as an SVG picture, for the README and for looking at screens without a terminal. The same buffer always
//! gives the same bytes. Blocks and dots are drawn as shapes, so that no font changes the lattice.

use super::theme::{Look, Rgb, Token, rgb_of_256};
use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};
use std::fmt::Write;

/// Size of one cell in pixels.
const WIDE: u16 = 10;
const HIGH: u16 = 21;
/// Air around the screen.
const MARGIN: u16 = 10;

/// Draws a buffer as SVG.
pub fn svg(buf: &Buffer, look: &Look) -> String {
    let area = buf.area;
    let (w, h) = (area.width * WIDE + 2 * MARGIN, area.height * HIGH + 2 * MARGIN);
    let ground = hex(Paint::new(look).bg);
    let mut out = String::with_capacity(usize::from(area.width) * usize::from(area.height) * 16);
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
         font-family=\"JetBrains Mono,DejaVu Sans Mono,Menlo,Consolas,monospace\" font-size=\"16.6\">\n\
         <rect width=\"{w}\" height=\"{h}\" fill=\"{ground}\"/>\n"
    );
    for y in 0..area.height {
        row(&mut out, buf, look, y);
    }
    out.push_str("</svg>\n");
    out
}

/// Resolved colours of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Paint {
    fg: Rgb,
    bg: Rgb,
    bold: bool,
    underlined: bool,
}

impl Paint {
    fn new(look: &Look) -> Self {
        let token = |t: Token| look.theme.tokens[t as usize].rgb;
        let own = matches!(look.level, super::theme::Level::X256 | super::theme::Level::True);
        Self {
            fg: if own {
                token(Token::Text)
            } else {
                (0xd4, 0xd4, 0xd4)
            },
            bg: if own { token(Token::Bg) } else { (0, 0, 0) },
            bold: false,
            underlined: false,
        }
    }

    fn of(cell: &Cell, look: &Look) -> Self {
        let plain = Self::new(look);
        let mut fg = rgb(cell.fg).unwrap_or(plain.fg);
        let mut bg = rgb(cell.bg).unwrap_or(plain.bg);
        if cell.modifier.contains(Modifier::DIM) {
            let half = |a: u8, b: u8| ((u16::from(a) + u16::from(b)) / 2) as u8;
            fg = (half(fg.0, bg.0), half(fg.1, bg.1), half(fg.2, bg.2));
        }
        if cell.modifier.contains(Modifier::REVERSED) {
            std::mem::swap(&mut fg, &mut bg);
        }
        Self {
            fg,
            bg,
            bold: cell.modifier.contains(Modifier::BOLD),
            underlined: cell.modifier.contains(Modifier::UNDERLINED),
        }
    }
}

fn rgb(colour: Color) -> Option<Rgb> {
    Some(match colour {
        Color::Reset => return None,
        Color::Rgb(r, g, b) => (r, g, b),
        Color::Indexed(i) => rgb_of_256(i),
        Color::Black => (0, 0, 0),
        Color::Red => (0xcd, 0x31, 0x31),
        Color::Green => (0x0d, 0xbc, 0x39),
        Color::Yellow => (0xc5, 0xb5, 0x10),
        Color::Blue => (0x24, 0x72, 0xc8),
        Color::Magenta => (0xbc, 0x3f, 0xbc),
        Color::Cyan => (0x11, 0xa8, 0xcd),
        Color::Gray => (0xcc, 0xcc, 0xcc),
        Color::DarkGray => (0x80, 0x80, 0x80),
        Color::LightRed => (0xff, 0x3b, 0x30),
        Color::LightGreen => (0x23, 0xd1, 0x8b),
        Color::LightYellow => (0xf5, 0xf5, 0x43),
        Color::LightBlue => (0x3b, 0x8e, 0xea),
        Color::LightMagenta => (0xff, 0x40, 0xff),
        Color::LightCyan => (0x29, 0xe0, 0xf0),
        Color::White => (0xff, 0xff, 0xff),
    })
}

fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn row(out: &mut String, buf: &Buffer, look: &Look, y: u16) {
    let cells: Vec<(&str, Paint)> = (0..buf.area.width)
        .filter_map(|x| buf.cell((buf.area.x + x, buf.area.y + y)))
        .map(|cell| (cell.symbol(), Paint::of(cell, look)))
        .collect();
    let ground = Paint::new(look).bg;
    let top = y * HIGH + MARGIN;
    let mut x = 0;
    while x < cells.len() {
        let paint = cells[x].1;
        let run = cells[x..].iter().take_while(|(_, p)| p.bg == paint.bg).count();
        if paint.bg != ground {
            rect(
                out,
                f64::from(left(x)),
                f64::from(top),
                f64::from(run as u16 * WIDE),
                f64::from(HIGH),
                paint.bg,
            );
        }
        x += run;
    }
    let mut x = 0;
    while x < cells.len() {
        let (symbol, paint) = cells[x];
        let glyph = symbol.chars().next().unwrap_or(' ');
        if glyph != ' ' && shape(out, glyph, left(x), top, paint.fg) {
            x += 1;
            continue;
        }
        let is_text = |s: &str, p: Paint| {
            let c = s.chars().next().unwrap_or(' ');
            p.fg == paint.fg
                && p.bold == paint.bold
                && p.underlined == paint.underlined
                && c != ' '
                && !is_shape(c)
        };
        let run = cells[x..].iter().take_while(|(s, p)| is_text(s, *p)).count();
        if run > 0 {
            text(out, &cells[x..x + run], left(x), top, paint);
        }
        x += run.max(1);
    }
}

fn left(x: usize) -> u16 {
    x as u16 * WIDE + MARGIN
}

/// Each character at its own place: no font may move the columns.
fn text(out: &mut String, cells: &[(&str, Paint)], x: u16, y: u16, paint: Paint) {
    let places: Vec<String> = (0..cells.len())
        .map(|i| (x + i as u16 * WIDE).to_string())
        .collect();
    let weight = if paint.bold { " font-weight=\"700\"" } else { "" };
    let line = if paint.underlined {
        " text-decoration=\"underline\""
    } else {
        ""
    };
    let mut escaped = String::new();
    for (symbol, _) in cells {
        for c in symbol.chars() {
            match c {
                '<' => escaped.push_str("&lt;"),
                '>' => escaped.push_str("&gt;"),
                '&' => escaped.push_str("&amp;"),
                c => escaped.push(c),
            }
        }
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" fill=\"{}\"{weight}{line}>{escaped}</text>",
        places.join(" "),
        y + 16,
        hex(paint.fg),
    );
}

fn rect(out: &mut String, x: f64, y: f64, w: f64, h: f64, fill: Rgb) {
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{}\"/>",
        hex(fill)
    );
}

const fn is_shape(glyph: char) -> bool {
    matches!(
        glyph,
        '▗' | '▖' | '▐' | '░' | '╌' | '▪' | '∙' | '\u{2800}'..='\u{28ff}'
    )
}

/// Draws a block or dot glyph as a shape; `false` if it is a letter.
fn shape(out: &mut String, glyph: char, x: u16, y: u16, fg: Rgb) -> bool {
    let (x, y) = (f64::from(x), f64::from(y));
    match glyph {
        '▗' => rect(out, x + 5.0, y + 10.0, 5.0, 11.0, fg),
        '▖' => rect(out, x, y + 10.0, 5.0, 11.0, fg),
        '▐' => rect(out, x + 5.0, y, 5.0, 21.0, fg),
        '▪' => rect(out, x + 2.0, y + 8.0, 6.0, 6.0, fg),
        '∙' => rect(out, x + 4.0, y + 10.0, 2.0, 2.0, fg),
        '╌' => {
            rect(out, x, y + 10.5, 3.5, 1.0, fg);
            rect(out, x + 5.0, y + 10.5, 3.5, 1.0, fg);
        }
        '░' => {
            for i in 0..4 {
                for j in 0..8 {
                    let shift = if j % 2 == 0 { 0.0 } else { 1.25 };
                    rect(
                        out,
                        x + f64::from(i) * 2.5 + shift,
                        y + f64::from(j) * 2.6,
                        1.0,
                        1.0,
                        fg,
                    );
                }
            }
        }
        '\u{2800}'..='\u{28ff}' => braille(out, glyph as u32 - 0x2800, x, y, fg),
        _ => return false,
    }
    true
}

fn braille(out: &mut String, bits: u32, x: f64, y: f64, fg: Rgb) {
    // Bit of each dot, by column and row.
    const DOTS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
    for (column, dots) in DOTS.iter().enumerate() {
        for (line, bit) in dots.iter().enumerate() {
            if bits & bit != 0 {
                let _ = writeln!(
                    out,
                    "<circle cx=\"{}\" cy=\"{}\" r=\"1.9\" fill=\"{}\"/>",
                    x + 2.5 + 5.0 * column as f64,
                    y + 2.6 + 5.25 * line as f64,
                    hex(fg)
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{glyphs::GlyphSet, theme::Level};
    use ratatui::{layout::Rect, style::Style};

    #[test]
    fn letters_are_placed_one_by_one_and_markup_of_others_is_text() {
        let look = Look::new("dark", Level::True, GlyphSet::Full).unwrap();
        let mut buf = Buffer::empty(Rect::new(0, 0, 6, 1));
        buf.set_string(0, 0, "a<b ▗⣿", Style::new().fg(Color::Rgb(1, 2, 3)));
        let picture = svg(&buf, &look);
        assert!(picture.contains("<text x=\"10 20 30\" y=\"26\" fill=\"#010203\">a&lt;b</text>"));
        assert_eq!(picture.matches("<circle").count(), 8);
        assert!(!picture.contains('▗'));
        assert_eq!(picture, svg(&buf, &look));
    }
}
