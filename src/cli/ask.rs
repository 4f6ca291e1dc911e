//! Showing what a change would do, and asking.

use super::{
    args::Consent,
    context::{Context, Exit, line},
};
use crate::plan::preview::Preview;
use std::io::{BufRead, IsTerminal, Write};

/// Most chunks shown one by one.
const SHOWN: usize = 6;

/// Shows the plan and asks, unless told not to.
///
/// # Errors
/// There is nobody to ask.
pub fn consent_given(ctx: &Context, preview: &Preview, consent: &Consent) -> Result<bool, Exit> {
    if consent.dry_run {
        ctx.print(preview, || words(preview))?;
        return Ok(false);
    }
    if consent.yes {
        return Ok(true);
    }
    if ctx.json || !std::io::stdin().is_terminal() {
        return Err(Exit::usage(&preview.title).hint("add --yes to do it, --dry-run to look"));
    }
    line(&words(preview))?;
    write!(std::io::stdout(), "\nGo on? Type yes: ")?;
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    let yes = answer.trim() == "yes";
    if !yes {
        line("nothing was done")?;
    }
    Ok(yes)
}

/// A preview in words.
pub fn words(preview: &Preview) -> String {
    let mut out = format!("{}\n", preview.title);
    let verb = match preview.title.split(' ').next().unwrap_or_default() {
        "Re-run" => "will run".to_owned(),
        verb => format!("will {}", verb.to_lowercase()),
    };
    for c in preview.will.iter().take(SHOWN) {
        let last = if c.last.is_empty() {
            String::new()
        } else {
            format!("  {}", c.last)
        };
        let profile = if c.profile.is_empty() {
            String::new()
        } else {
            format!("  profile {}", c.profile)
        };
        out.push_str(&format!(
            "  {verb:<11} {}  {}  attempt {}{profile}{last}\n",
            c.chunk, c.state, c.attempt
        ));
    }
    out.push_str(&more(preview.will.len()));
    for (day, why) in preview.will_not.iter().take(SHOWN) {
        out.push_str(&format!("  will not    {day}  {why}\n"));
    }
    out.push_str(&more(preview.will_not.len()));
    for (label, value) in &preview.facts {
        out.push_str(&format!("  {label:<11} {value}\n"));
    }
    out.push_str(&format!(
        "  same as     {}\n  plan        {}",
        preview.same_as, preview.digest
    ));
    out
}

fn more(all: usize) -> String {
    if all > SHOWN {
        format!("              and {} more\n", all - SHOWN)
    } else {
        String::new()
    }
}
