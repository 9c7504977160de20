//! Certificates: how they are made known, issued, renewed, and what is said when they cannot be.
//!
//! Pure. Authorities and certificates are real ones.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::{World, value};
use crate::k8s::watch::Change;
use crate::manager::authority::{Authorities, first};
use crate::manager::leaves::Leaves;
use crate::manager::part::State;
use crate::pki::{Authority, Period};

pub(super) const AUTHORITY: &str = "contrail-ca-certificate";
pub(super) const BUNDLE: &str = "csr-signer-ca";
pub(super) const OWN: &str = "rabbitmq1-secret-certificates";

impl World {
    /// Makes, renews and issues what may be, as the API server would keep it. Returns how much.
    pub fn certify(&mut self) -> usize {
        let mut count = 0;
        loop {
            let plan = self.plan();
            let mut objects = Vec::new();
            let authorities = self.secret(AUTHORITY).and_then(|secret| Authorities::read(&secret).ok());
            if let Some(needs) = plan.authority {
                let make =
                    || Authority::make(AUTHORITY, Period::of(self.resolved().lifetimes.authority, self.now)).unwrap();
                if needs.is_made {
                    objects.push(json!({ "kind": "Secret", "metadata": { "name": needs.name, "labels": needs.labels },
                        "data": first(&make()) }));
                }
                if let Some((step, authorities)) = needs.step.zip(authorities.as_ref()) {
                    let mut change = authorities.change(step, Some(&make()));
                    change["kind"] = "Secret".into();
                    change["metadata"]["name"] = needs.name.into();
                    objects.push(change);
                }
                objects.extend(needs.bundle);
            }
            for (_, issue) in plan.issues {
                objects.extend(issue.object(&authorities.as_ref().unwrap().signs).unwrap());
            }
            if objects.is_empty() {
                return count;
            }
            count += objects.len();
            assert!(count < 100, "it comes to rest");
            for object in objects {
                self.store(object);
            }
        }
    }

    fn store(&mut self, mut object: Value) {
        self.version += 1;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let before = if object["kind"] == "Secret" {
            serde_json::to_value(self.secret(&name)).unwrap()
        } else {
            let all = self.fleet.read();
            serde_json::to_value(all.config_maps.get("contrail", &name)).unwrap()
        };
        for (key, text) in before["data"].as_object().into_iter().flatten() {
            if object["data"].get(key).is_none() {
                object["data"][key] = text.clone();
            }
        }
        object["data"].as_object_mut().unwrap().retain(|_, text| !text.is_null());
        object["metadata"]["namespace"] = "contrail".into();
        object["metadata"]["uid"] = name.into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.fleet.with(|all| match object["kind"].as_str() {
            Some("Secret") => drop(all.secrets.take(Change::Applied(value(object)))),
            _ => drop(all.config_maps.take(Change::Applied(value(object)))),
        });
    }

    pub(super) fn secret(&self, name: &str) -> Option<Secret> {
        self.fleet.read().secrets.get("contrail", name).cloned()
    }

    pub(super) fn change(&self, name: &str, change: impl FnOnce(&mut Secret)) {
        let mut secret = self.secret(name).unwrap();
        change(&mut secret);
        self.fleet.with(|all| drop(all.secrets.take(Change::Applied(secret))));
    }

    fn lose(&self, name: &str) {
        let gone = self.secret(name).unwrap();
        self.fleet.with(|all| drop(all.secrets.take(Change::Deleted(gone))));
    }

    fn keys(&self, name: &str) -> BTreeSet<String> {
        self.secret(name).unwrap().data.unwrap().into_keys().collect()
    }
}

/// A stack of RabbitMQ alone, which serves.
pub(super) fn standing() -> World {
    let mut world = World::of(&["a", "bb", "ccc"]);
    world.manager.spec.services.0.retain(|key, _| key == "rabbitmq");
    world.stand_up(&["rabbitmq1"]);
    assert_eq!(world.says("Ready").0, "AllServing");
    world
}

fn marks(world: &World) -> Vec<String> {
    world.keys(OWN).into_iter().filter(|key| key.starts_with("issued-")).collect()
}

#[test]
fn each_server_has_its_own_before_it_exists_and_one_that_comes_later_makes_no_other_start_again() {
    let mut world = World::new(0);
    world.node("a", &json!({}));
    world.manager.spec.services.0.retain(|key, _| key == "rabbitmq");
    world.enrol();
    assert_eq!(world.state("rabbitmq1"), State::Waiting("its certificates".to_owned()));
    assert_eq!(world.plan().parts[0].objects, Vec::<Value>::new());
    world.stand_up(&["rabbitmq1"]);
    let before = (world.secret(OWN).unwrap().data.unwrap(), marks(&world));
    world.node("bb", &json!({}));
    world.node("ccc", &json!({}));
    world.stand_up(&["rabbitmq1"]);
    assert_eq!(world.state("rabbitmq1"), State::Serving);
    let after = world.secret(OWN).unwrap().data.unwrap();
    assert_eq!(
        (after["server-10.0.0.2.crt"].clone(), marks(&world)),
        (before.0["server-10.0.0.2.crt"].clone(), before.1)
    );
    assert!(after.contains_key("server-key-10.0.0.4.pem"), "{:?}", after.keys());
    assert_eq!(world.plan().replacement, None);
    // A server that is no more has none.
    assert_eq!(world.certify(), 0);
}

#[test]
fn at_two_thirds_of_their_time_there_are_others_and_the_servers_start_again_in_turn() {
    let mut world = standing();
    let next = world.plan().next.unwrap();
    assert_eq!(world.certify(), 0);
    world.now = next - TimeDelta::seconds(1);
    assert_eq!(world.certify(), 0, "not before");
    world.now = next;
    assert_eq!(world.certify(), 1);
    assert_eq!(marks(&world).len(), 2, "a server of the earlier template may start again");
    world.write();
    let State::Updating(why) = world.state("rabbitmq1") else { panic!("{:?}", world.state("rabbitmq1")) };
    assert!(why.starts_with("3 of its Pods run an earlier template"), "{why}");
    assert!(world.plan().replacement.is_some());
    assert_eq!(world.says("Degraded").0, "AsExpected");
    // They are held until those that run end soon.
    world.manager.spec.rollout = Some(value(json!({ "paused": true })));
    world.now = world.plan().next.unwrap();
    let said = world.says("Degraded");
    assert_eq!(said.0, "CertificatesExpiring");
    assert!(said.1.contains("rabbitmq1: the certificates of its Pods end at 1971-01-01"), "{}", said.1);
    world.manager.spec.rollout = None;
    world.serve("rabbitmq1", true);
    assert_eq!(world.says("Degraded").0, "AsExpected");
}

#[test]
fn an_authority_is_trusted_by_all_before_it_signs_and_trusted_until_it_ends_after_it_has() {
    let mut world = standing();
    let ids = |world: &World| {
        let all = Authorities::read(&world.secret(AUTHORITY).unwrap()).unwrap();
        (all.signs.certificate.id, all.next.map(|next| next.certificate.id), all.previous.map(|one| one.id))
    };
    let (first, ..) = ids(&world);
    world.manager.spec.certificates = Some(value(json!({ "authorityLifetime": "9000h" })));
    world.write();
    let (signs, next, _) = ids(&world);
    let next = next.unwrap();
    assert_eq!((&signs, marks(&world).len()), (&first, 1), "nothing is signed by it yet");
    let bundle = |world: &World| {
        let all = world.fleet.read();
        all.config_maps.get("contrail", BUNDLE).unwrap().data.clone().unwrap()
    };
    assert_eq!(bundle(&world)["ca-bundle.crt"].matches("BEGIN CERTIFICATE").count(), 2);
    assert!(bundle(&world).contains_key(&format!("trusts-{next}")));
    assert!(matches!(world.state("rabbitmq1"), State::Updating(_)));
    assert_eq!(world.certify(), 0, "while one does not trust it");
    world.serve("rabbitmq1", true);
    assert!(world.certify() > 0);
    assert_eq!(ids(&world), (next.clone(), None, Some(first.clone())));
    assert_eq!((marks(&world).len(), bundle(&world).len()), (2, 3), "both are trusted");
    world.write();
    assert!(matches!(world.state("rabbitmq1"), State::Updating(_)));
    world.serve("rabbitmq1", true);
    assert_eq!((world.says("Ready").0, world.certify()), ("AllServing".to_owned(), 0));
    // The first one ends: no program restarts for it.
    world.now += TimeDelta::days(3650);
    world.manager.spec.certificates = None;
    let mut last = ids(&world);
    for _ in 0..9 {
        world.write();
        world.serve("rabbitmq1", true);
        last = ids(&world);
    }
    assert!(last.0 != first && last.2.as_ref() != Some(&first), "{last:?}");
}

#[test]
fn what_cannot_be_issued_is_reported_and_all_that_runs_continues() {
    let mut world = standing();
    let before = world.secret(AUTHORITY).unwrap();
    let damages: [fn(&mut Secret); 3] = [
        |secret| drop(secret.data.as_mut().unwrap().remove("ca.key")),
        |secret| drop(secret.data.as_mut().unwrap().insert("ca.crt".to_owned(), ByteString(b"text".to_vec()))),
        |secret| secret.data = None,
    ];
    for damage in damages {
        world.change(AUTHORITY, damage);
        let said = world.says("Degraded");
        assert_eq!((&*said.0, world.state("rabbitmq1"), world.certify()), ("AuthorityUnusable", State::Serving, 0));
        assert!(said.1.contains("Secret contrail-ca-certificate") && said.1.contains("restore it"), "{}", said.1);
        assert!(world.plan().replacement.is_none() && world.plan().surplus.is_empty());
        world.fleet.with(|all| drop(all.secrets.take(Change::Applied(before.clone()))));
    }
    world.lose(AUTHORITY);
    assert_eq!((world.state("rabbitmq1"), world.certify()), (State::Serving, 0));
    assert!(world.says("Degraded").1.contains("or delete ConfigMap csr-signer-ca, too"));
    // A component that lacks certificates waits for that.
    world.lose(OWN);
    assert_eq!(world.state("rabbitmq1"), State::Waiting("its certificates".to_owned()));
    assert!(world.plan().replacement.is_none());
    world.now += TimeDelta::days(330);
    world.fleet.with(|all| drop(all.secrets.take(Change::Applied(before))));
    world.write();
    assert!(matches!(world.state("rabbitmq1"), State::Updating(_)), "{:?}", world.state("rabbitmq1"));
}

#[test]
fn changed_certificates_are_issued_again_and_those_of_another_manager_awaited() {
    let mut world = standing();
    world.change(OWN, |secret| {
        secret.data.as_mut().unwrap().insert("server-10.0.0.2.crt".to_owned(), ByteString(b"text".to_vec()));
    });
    assert_eq!(world.certify(), 1);
    assert!(world.secret(OWN).unwrap().data.unwrap()["server-10.0.0.2.crt"].0.starts_with(b"-----BEGIN"));
    world.manager.metadata.uid = Some("another".to_owned());
    assert_eq!(world.certify(), 0, "Kubernetes removes what the deleted one had");
    assert!(matches!(world.state("rabbitmq1"), State::Waiting(_)));
}

/// A stack whose certificates were renewed once, and are in use.
fn renewed() -> World {
    let mut world = standing();
    world.now = world.plan().next.unwrap();
    assert_eq!(world.certify(), 1);
    world.write();
    world.serve("rabbitmq1", true);
    assert_eq!((world.state("rabbitmq1"), marks(&world).len()), (State::Serving, 2));
    world
}

#[test]
fn a_mark_that_is_removed_is_put_back_and_entries_of_others_stay_and_nothing_is_issued() {
    let mut world = renewed();
    let whole = world.secret(OWN).unwrap().data;
    for mark in marks(&world) {
        world.change(OWN, |secret| drop(secret.data.as_mut().unwrap().remove(&mark)));
        assert_eq!(world.certify(), 1);
        assert_eq!(world.secret(OWN).unwrap().data, whole, "{mark}");
        assert_eq!((world.state("rabbitmq1"), world.plan().replacement), (State::Serving, None));
    }
    let theirs = ByteString(b"text".to_vec());
    world.change(OWN, |secret| drop(secret.data.as_mut().unwrap().insert("theirs".to_owned(), theirs.clone())));
    assert_eq!((world.certify(), world.state("rabbitmq1")), (0, State::Serving));
    world.now += TimeDelta::days(250);
    assert_eq!((world.certify(), marks(&world).len()), (1, 3));
    assert_eq!(world.secret(OWN).unwrap().data.unwrap()["theirs"], theirs);
}

#[test]
fn damaged_certificates_are_issued_again_and_what_servers_wait_for_stays() {
    let mut world = renewed();
    let (before, secret) = (marks(&world), world.secret(OWN).unwrap());
    let ends = Leaves::read(&secret).unwrap().issued.to;
    world.now += TimeDelta::seconds(1);
    world.change(OWN, |secret| {
        let data = secret.data.as_mut().unwrap();
        data.insert("server-10.0.0.2.crt".to_owned(), ByteString(b"text".to_vec()));
        // It is put back from what the Secret says of itself.
        data.remove(&before[0]);
    });
    assert_eq!(world.certify(), 1);
    let after = marks(&world);
    assert!(after.len() == 3 && before.iter().all(|mark| after.contains(mark)), "{after:?}");
    let secret = world.secret(OWN).unwrap();
    assert_eq!(Leaves::read(&secret).unwrap().issued.before, Some(ends), "those that run end then");
}
