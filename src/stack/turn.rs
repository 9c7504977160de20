//! Whose turn it is to be replaced by a server of the present template: one at a time, in the order of the table.
//!
//! While a server is missing for whatever cause, no other is replaced: a store may need all that it has left. The
//! missing one may be replaced itself, for an earlier template may be why. Must not know how a server is replaced.

/// A server of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server<'s> {
    pub name: &'s str,
    pub health: Health,
    /// It was made from an earlier template.
    pub is_outdated: bool,
}

/// How a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Serves,
    /// It does, and not for long enough.
    Proving,
    Away,
    /// It does not serve, and waiting will not change that: its kubelet says why, or it has waited for long enough.
    Failing,
    /// It has ended, or is about to.
    Ending,
    /// Its node has fallen silent: of a server that runs on every node nothing waits for that.
    Lost,
}

/// How the servers of a component depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// It runs on every node, and no other component waits for each of them.
    Everywhere,
    /// Each server serves alone.
    Apart,
    /// A server may serve only once others do.
    Quorum,
}

/// A component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component<'s> {
    pub servers: Vec<Server<'s>>,
    /// How many there should be.
    pub desired: usize,
    pub form: Form,
    /// Whether what new servers are made from is what the spec asks for now.
    pub is_written: bool,
    /// How many of its servers may be missing because of a change.
    pub budget: usize,
    /// Whether none may be replaced now.
    pub is_held: bool,
}

impl<'s> Component<'s> {
    fn is_everywhere(&self) -> bool {
        self.form == Form::Everywhere
    }

    /// How many of its servers are missing or going.
    fn missing(&self) -> usize {
        self.desired.saturating_sub(self.servers.iter().filter(|server| server.health != Health::Ending).count())
    }

    fn away(&self) -> impl Iterator<Item = &Server<'s>> {
        self.servers.iter().filter(|server| server.is_away())
    }

    /// How many are not there for a reason that is not an earlier template.
    fn used(&self) -> usize {
        let is_used = |one: &&Server<'_>| one.health == Health::Proving || one.is_away() && !one.is_outdated;
        self.missing() + self.servers.iter().filter(is_used).count()
    }

    /// A server that an earlier template keeps from starting. It waits for no other component: it may be what these
    /// lack, and several may be broken at once.
    fn broken(&self) -> Option<&'s str> {
        let serves = |server: &Server<'_>| matches!(server.health, Health::Serves | Health::Proving);
        // Where none serves there is nothing to lose, and one that was replaced may wait for the others.
        let has_nothing_to_lose = self.form == Form::Quorum && self.missing() == 0 && !self.servers.iter().any(serves);
        let is_open = if has_nothing_to_lose { self.room() > 0 } else { self.used() < self.room() };
        let is_open = is_open && !self.is_held && self.is_written;
        let broken = self.servers.iter().find(|server| server.is_outdated && server.health == Health::Failing);
        broken.filter(|_| is_open).map(|server| server.name)
    }

    /// How many may be missing now. The present template proves itself on one server before it reaches several, and
    /// reaches no further one while it fails.
    fn room(&self) -> usize {
        let mut present = self.servers.iter().filter(|server| !server.is_outdated).map(|server| server.health);
        let is_proven = present.clone().any(|health| health == Health::Serves);
        if present.any(|health| health == Health::Failing) {
            0
        } else if is_proven {
            self.budget
        } else {
            self.budget.min(1)
        }
    }
}

impl Server<'_> {
    fn is_away(&self) -> bool {
        matches!(self.health, Health::Away | Health::Failing)
    }
}

/// The server to replace now, of the first component that is not held: which component's, and its name. `components`:
/// in the order of the table.
#[must_use]
pub fn next<'s>(components: &[Component<'s>]) -> Option<(usize, &'s str)> {
    let is_changed = |one: &&(usize, &Component<'_>)| {
        let is_open =
            |server: &Server<'_>| server.is_outdated && !matches!(server.health, Health::Ending | Health::Lost);
        !one.1.is_held && one.1.servers.iter().any(is_open)
    };
    if let Some(broken) = components.iter().enumerate().find_map(|(at, one)| Some((at, one.broken()?))) {
        return Some(broken);
    }
    let all: Vec<(usize, &Component<'_>)> = components.iter().enumerate().collect();
    let (at, _) = *all.iter().find(is_changed)?;
    let turn = &components[at];
    let others = || components.iter().enumerate().filter(|(other, one)| *other != at && !one.is_everywhere());
    let is_whole = others().all(|(_, one)| one.used() == 0 && one.away().next().is_none());
    if !turn.is_written || turn.used() >= turn.room() || !is_whole {
        return None;
    }
    let name = if turn.away().any(|server| server.is_outdated) {
        if !turn.is_everywhere() && turn.away().count() > turn.room() {
            // They may be back in a moment, after an outage: one of them at a time could keep the others waiting.
            return None;
        }
        turn.servers.iter().find(|server| server.is_outdated && server.is_away())?.name
    } else {
        // As Kubernetes does: the last one first.
        turn.servers.iter().rfind(|server| server.is_outdated && server.health == Health::Serves)?.name
    };
    Some((at, name))
}

/// A server for which the next one waits, if one is there.
#[must_use]
pub fn waits_for<'s>(components: &[Component<'s>]) -> Option<&'s str> {
    let is_awaited = |component: &Component<'_>, server: &Server<'_>| {
        if component.is_everywhere() && !component.servers.iter().any(|one| one.is_outdated) {
            return server.health == Health::Failing;
        }
        // One of an earlier template on every node waits for its own turn.
        let counts = !component.is_everywhere() || !server.is_outdated || server.health == Health::Ending;
        counts && (server.is_away() || matches!(server.health, Health::Proving | Health::Ending))
    };
    let awaited = |one: &Component<'s>| one.servers.iter().find(|server| is_awaited(one, server)).map(|one| one.name);
    components.iter().find_map(awaited)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component from letters: r ready, p ready a moment ago, u unready, f failing, e ending; in capitals outdated;
    /// l lost.
    fn of(letters: &'static str, desired: usize) -> Component<'static> {
        let servers = (0..letters.len())
            .map(|at| {
                let letter = letters.as_bytes()[at];
                let health = match letter.to_ascii_lowercase() {
                    b'r' => Health::Serves,
                    b'p' => Health::Proving,
                    b'f' => Health::Failing,
                    b'e' => Health::Ending,
                    b'l' => Health::Lost,
                    _ => Health::Away,
                };
                Server { name: &letters[at..], health, is_outdated: letter.is_ascii_uppercase() }
            })
            .collect();
        Component { servers, desired, form: Form::Apart, is_written: true, budget: 1, is_held: false }
    }

    fn next_of(components: &[Component<'static>]) -> Option<(usize, usize)> {
        next(components).map(|(at, name)| (at, components[at].servers.len() - name.len()))
    }

    #[test]
    fn one_at_a_time_and_the_last_one_first() {
        assert_eq!(next_of(&[of("RRR", 3)]), Some((0, 2)));
        assert_eq!(next_of(&[of("RRr", 3)]), Some((0, 1)));
        assert_eq!(next_of(&[of("rrr", 3)]), None);
        for (waits, whom) in [
            ("RRu", Some("u")),
            ("RRE", Some("E")),
            ("RRP", Some("P")),
            ("PRp", Some("PRp")),
            ("RRe", Some("e")),
            ("RR", None),
        ] {
            assert_eq!((next_of(&[of(waits, 3)]), waits_for(&[of(waits, 3)])), (None, whom), "{waits}");
        }
    }

    #[test]
    fn one_that_an_earlier_template_broke_is_replaced_itself() {
        assert_eq!(next_of(&[of("RRU", 3)]), Some((0, 2)));
        assert_eq!(next_of(&[of("rrU", 3)]), Some((0, 2)));
        assert_eq!(next_of(&[of("RUu", 3)]), None, "one that is as desired may be back in a moment");
        assert_eq!(next_of(&[of("UUU", 3)]), None, "all nodes were started again, and none is touched");
        assert_eq!(next_of(&[of("RUU", 3)]), None);
    }

    #[test]
    fn what_an_earlier_template_keeps_from_starting_waits_for_no_other_component() {
        assert_eq!(next_of(&[of("FFF", 3), of("FFF", 3), of("F", 1)]), Some((0, 0)), "nothing runs yet");
        assert_eq!(next_of(&[of("fFF", 3), of("FFF", 3)]), Some((1, 0)), "what replaces it fails, too");
        let store = |letters| Component { form: Form::Quorum, ..of(letters, 3) };
        assert_eq!(next_of(&[store("uFF")]), Some((0, 1)), "one alone has no quorum");
        assert_eq!(next_of(&[store("uuF")]), Some((0, 2)));
        assert_eq!(next_of(&[store("uRF")]), None, "one serves still");
        assert_eq!(next_of(&[store("upF")]), None);
        assert_eq!(next_of(&[of("uuu", 3), of("F", 1)]), Some((1, 0)), "the others are unready for lack of it");
        assert_eq!(next_of(&[of("uuu", 3), of("U", 1)]), None, "it may be back in a moment");
        assert_eq!(next_of(&[of("EFF", 3), of("F", 1)]), Some((1, 0)), "one of a component at a time");
        let held = Component { is_held: true, ..of("F", 1) };
        assert_eq!(next_of(&[held]), None);
    }

    #[test]
    fn a_template_that_hangs_reaches_one_server_where_none_needs_another_one() {
        assert_eq!(next_of(&[of("FFF", 3)]), Some((0, 0)));
        for waits in ["uFF", "pFF", "fFF"] {
            assert_eq!((next_of(&[of(waits, 3)]), waits_for(&[of(waits, 3)])), (None, Some(waits)), "{waits}");
        }
        assert_eq!(next_of(&[of("rFF", 3)]), Some((0, 1)), "it has proved itself");
        let of_three = |letters| Component { budget: 3, form: Form::Everywhere, ..of(letters, 4) };
        assert_eq!((next_of(&[of_three("FFFF")]), next_of(&[of_three("uFFF")])), (Some((0, 0)), None));
    }

    #[test]
    fn components_have_their_turn_in_order_and_only_while_all_others_are_whole() {
        assert_eq!(next_of(&[of("rrr", 3), of("R", 1), of("R", 1)]), Some((1, 0)));
        assert_eq!(next_of(&[of("rru", 3), of("R", 1)]), None);
        assert_eq!(next_of(&[of("rr", 3), of("R", 1)]), None);
        assert_eq!(next_of(&[of("rrp", 3), of("R", 1)]), None);
        assert_eq!(next_of(&[of("R", 1), of("u", 1)]), None, "also of one that comes later");
        let unwritten = Component { is_written: false, ..of("R", 1) };
        assert_eq!(next_of(&[unwritten, of("R", 1)]), None);
    }

    #[test]
    fn nothing_waits_for_what_runs_on_every_node_nor_it_for_a_lost_node() {
        let everywhere = |letters, desired| Component { form: Form::Everywhere, ..of(letters, desired) };
        assert_eq!(next_of(&[everywhere("rul", 3), of("R", 1)]), Some((1, 0)));
        assert_eq!(next_of(&[of("u", 1), everywhere("RR", 2)]), None);
        assert_eq!(next_of(&[everywhere("RRl", 3)]), Some((0, 1)));
        assert_eq!(next_of(&[everywhere("RRL", 3)]), Some((0, 1)), "one that is lost is not touched");
        assert_eq!(next_of(&[everywhere("rrL", 3), of("R", 1)]), Some((1, 0)), "and keeps no other waiting");
        assert_eq!(next_of(&[everywhere("RRu", 3)]), None);
    }

    #[test]
    fn as_many_as_the_budget_are_missing_at_once_and_a_held_one_delays_no_other() {
        let of_two = |letters, desired| Component { budget: 2, form: Form::Everywhere, ..of(letters, desired) };
        assert_eq!(next_of(&[of_two("RRRur", 5)]), Some((0, 2)));
        assert_eq!(next_of(&[of_two("RREur", 5)]), None);
        assert_eq!(next_of(&[of_two("RRUur", 5)]), Some((0, 2)), "one that is broken first");
        assert_eq!(next_of(&[of_two("RRpur", 5)]), None);
        let held = Component { is_held: true, ..of("RRR", 3) };
        assert_eq!(next_of(std::slice::from_ref(&held)), None);
        assert_eq!(next_of(&[held, of("R", 1)]), Some((1, 0)));
    }
    #[test]
    fn one_server_tries_a_template_and_no_other_one_gets_it_while_it_fails() {
        let of_three = |letters, desired| Component { budget: 3, form: Form::Everywhere, ..of(letters, desired) };
        assert_eq!(next_of(&[of_three("RRRRR", 5)]), Some((0, 4)));
        for waits in ["RRRRu", "RRRRp", "RRRRE", "RRRRf", "RRRfr", "RRFfr"] {
            let all = [of_three(waits, 5)];
            let awaited = waits.find(['u', 'p', 'E', 'f']).map(|at| &waits[at..]);
            assert_eq!((next_of(&all), waits_for(&all)), (None, awaited), "{waits}");
        }
        assert_eq!(next_of(&[of_three("RRRRr", 5)]), Some((0, 3)), "it has proved itself");
        assert_eq!(next_of(&[of_three("RRRpr", 5)]), Some((0, 2)));
        assert_eq!(next_of(&[of_three("RRFRF", 5)]), Some((0, 2)), "what an earlier template broke");
    }
}
