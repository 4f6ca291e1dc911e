//! The layer in which somebody else's backfill is attached to: a list, a form, and the order that comes of it.

use super::{Ctx, Machine, Seen, fed};
use crate::{
    domain::{ids::Name, text::one_line},
    tui::{
        attaching::{Attaching, Choice, Errand, Form, Ordered, Place, Scouted},
        effect::Effect,
        model::{Layer, LeaseView},
        msg::{Answer, Press},
    },
};

/// The most characters of what a server said in one line.
const LONGEST: usize = 300;

/// Opens the list, and asks every server at once.
pub(super) fn open(machine: &mut Machine, ctx: &Ctx<'_>) -> Vec<Effect> {
    let op = errand(machine);
    machine.push(Layer::Attach(Box::new(Attaching::new(op, ctx.now))));
    let errand = Errand::Offers;
    vec![Effect::Scout { op, errand }]
}

/// A number for an errand; what it brings is no answer to a command.
const fn errand(machine: &mut Machine) -> u64 {
    let op = machine.next_op;
    machine.next_op += 1;
    op
}

fn layer(machine: &mut Machine) -> Option<&mut Attaching> {
    machine.app.layers.iter_mut().rev().find_map(|l| match l {
        Layer::Attach(attaching) => Some(attaching.as_mut()),
        _ => None,
    })
}

/// Up and down: the chosen row, or the field that is typed in.
pub(super) fn choose(machine: &mut Machine, by: isize) {
    if let Some(attaching) = layer(machine) {
        match &mut attaching.form {
            Some(form) => form.go(by),
            None => {
                let last = attaching.choices().len().saturating_sub(1);
                attaching.chosen = attaching.chosen.saturating_add_signed(by).min(last);
            }
        }
    }
}

/// After something was typed the list begins anew, and a word about what was wrong goes.
pub(super) fn edited(attaching: &mut Attaching) {
    match &mut attaching.form {
        Some(form) if !form.sent => form.outcome = None,
        Some(_) => {}
        None => attaching.chosen = 0,
    }
}

/// Esc: from the form back to the list, from the list away.
pub(super) fn back(machine: &mut Machine) {
    match layer(machine) {
        Some(attaching) if attaching.form.is_some() => attaching.form = None,
        _ => drop(machine.pop()),
    }
}

/// Enter: the chosen row opens its form, the form is sent.
pub(super) fn enter(machine: &mut Machine, ctx: &Ctx<'_>, press: Press) -> Vec<Effect> {
    if let Some(why) = machine.too_early(press.at) {
        machine.say(why, ctx.now);
        return Vec::new();
    }
    let Some(attaching) = layer(machine) else {
        return Vec::new();
    };
    if attaching.form.is_some() {
        return send(machine, ctx);
    }
    let choices = attaching.choices();
    let Some(choice) = choices
        .get(attaching.chosen.min(choices.len().saturating_sub(1)))
        .cloned()
    else {
        machine.say("there is nothing to choose yet", ctx.now);
        return Vec::new();
    };
    ask_about(machine, ctx, choice)
}

fn ask_about(machine: &mut Machine, ctx: &Ctx<'_>, choice: Choice) -> Vec<Effect> {
    let op = errand(machine);
    let open = ctx
        .feed
        .state
        .backfills
        .values()
        .filter(|b| !b.state().is_final());
    let live: Vec<Name> = open.map(|b| b.spec.name.clone()).collect();
    let errand = Errand::Find {
        executor: choice.executor.clone(),
        dag: choice.offer.dag.clone(),
        native: choice.offer.native,
        live,
    };
    if let Some(attaching) = layer(machine) {
        attaching.errand = op;
        attaching.form = Some(Form::new(choice));
    }
    // What it would do has to be seen before it is sent.
    machine.seen = Seen::NotYet;
    vec![Effect::Scout { op, errand }]
}

/// Sends the form, if it makes sense: it is checked against configuration and pool first.
fn send(machine: &mut Machine, ctx: &Ctx<'_>) -> Vec<Effect> {
    let op = errand(machine);
    let Some((form, current)) = layer(machine).and_then(|a| Some((a.form.as_mut()?, &mut a.errand))) else {
        return Vec::new();
    };
    if form.sent {
        machine.say("it is sent already", ctx.now);
        return Vec::new();
    }
    match form.wanted() {
        Err((field, why)) => {
            form.at = field;
            form.outcome = Some(why);
            Vec::new()
        }
        Ok(wanted) => {
            form.sent = true;
            form.outcome = Some("checking it ..".to_owned());
            *current = op;
            let errand = Errand::Order(Box::new(wanted));
            vec![Effect::Scout { op, errand }]
        }
    }
}

/// What an errand brought; what belongs to an older one, or to a list that was closed, is dropped.
pub(super) fn scouted(machine: &mut Machine, ctx: &Ctx<'_>, op: u64, what: Scouted) -> Vec<Effect> {
    let Some(attaching) = layer(machine) else {
        return Vec::new();
    };
    // A slow server of the list may answer while a form is open.
    if let Scouted::Offers(executor, offers) = what {
        let places = attaching.places.iter_mut().flatten();
        if let Some(place) = places.into_iter().find(|p| p.executor == executor) {
            place.offers = Some(offers);
        }
        return Vec::new();
    }
    if attaching.errand != op {
        return Vec::new();
    }
    match (what, &mut attaching.form) {
        (Scouted::Executors(all), _) => {
            let place = |executor| Place {
                executor,
                offers: None,
            };
            attaching.places = Some(all.into_iter().map(place).collect());
        }
        (Scouted::Found(known), Some(form)) => form.learn(known),
        (Scouted::Order(Ok(ordered)), Some(_)) => return start(machine, ctx, *ordered),
        (Scouted::Order(Err(why)) | Scouted::Failed(why), Some(form)) => refuse(form, &why),
        (Scouted::Failed(why), None) => attaching.problem = Some(why),
        _ => {}
    }
    Vec::new()
}

fn refuse(form: &mut Form, why: &str) {
    form.sent = false;
    form.outcome = Some(format!("nothing was done: {}", one_line(why, LONGEST)));
}

/// Has the order journaled.
fn start(machine: &mut Machine, ctx: &Ctx<'_>, ordered: Ordered) -> Vec<Effect> {
    if machine.app.read_only.is_some() {
        if let Some(form) = layer(machine).and_then(|a| a.form.as_mut()) {
            refuse(form, "read-only");
        }
        return Vec::new();
    }
    if let Some(form) = layer(machine).and_then(|a| a.form.as_mut()) {
        form.outcome = Some(super::SENT.to_owned());
    }
    let what = format!("attaching to {}", ordered.spec.target);
    let op = machine.op(what, ctx.now);
    machine.attach_op = Some((op, ordered.id.clone()));
    vec![Effect::Attach {
        op,
        ordered: Box::new(ordered),
    }]
}

/// What came of it. Once it is in the journal it is shown as soon as it is here, and somebody supervises it.
pub(super) fn answered(machine: &mut Machine, ctx: &Ctx<'_>, answer: Answer) -> Vec<Effect> {
    let Some((op, id)) = machine.attach_op.take() else {
        return Vec::new();
    };
    machine.pending.retain(|p| p.op != op);
    match answer {
        Answer::Accepted { seq } => {
            machine.app.layers.retain(|l| !matches!(l, Layer::Attach(_)));
            machine.say(format!("attached as {id}: recorded as event {seq}"), ctx.now);
            machine.awaited = Some(id);
            fed::show_awaited(machine, ctx.feed);
            if ctx.feed.lease != LeaseView::Nobody {
                return Vec::new();
            }
            let op = machine.op("start of a supervisor", ctx.now);
            vec![Effect::StartSupervisor { op }]
        }
        Answer::Refused { why } => {
            match layer(machine).and_then(|a| a.form.as_mut()) {
                Some(form) => refuse(form, &why),
                None => machine.say(format!("{id} was not attached: {why}"), ctx.now),
            }
            Vec::new()
        }
        Answer::Changed(_) | Answer::Done { .. } => Vec::new(),
    }
}
