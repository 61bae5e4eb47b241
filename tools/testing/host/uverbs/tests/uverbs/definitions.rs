// SPDX-License-Identifier: GPL-2.0

//! Definitions of the core and of drivers, merged.

use proptest::prelude::*;
use rdma_uverbs_engines::proto::definitions::*;
use rdma_uverbs_engines::proto::key::{Bit, Key, Place};
use rdma_uverbs_engines::proto::spec::{Access, Bytes, Kind, Spec};
use rdma_uverbs_engines::proto::write::Command;
use rdma_uverbs_engines::proto::Refusal;
use std::collections::BTreeMap;

const DRIVER: u16 = 1 << 12;

#[derive(Default)]
struct Map {
    elements: BTreeMap<u16, Element<&'static str, u32, ()>>,
    room: Option<usize>,
}

impl Tree for Map {
    type Type = &'static str;
    type Handler = u32;
    type Choices = ();

    fn insert(&mut self, key: Key, element: Element<&'static str, u32, ()>) -> Result<(), Refusal> {
        if self.room == Some(self.elements.len()) {
            return Err(Refusal::NoMemory);
        }
        assert!(self.elements.insert(key.raw(), element).is_none());
        Ok(())
    }

    fn get(&mut self, key: Key) -> Option<&mut Element<&'static str, u32, ()>> {
        self.elements.get_mut(&key.raw())
    }

    fn next(&self, from: u16) -> Option<Key> {
        self.elements
            .range(from..)
            .next()
            .map(|(key, _)| Key::from_raw(*key))
    }

    fn remove(&mut self, key: Key) {
        assert!(self.elements.remove(&key.raw()).is_some());
    }
}

fn spec(kind: Kind<()>, mandatory: bool) -> Spec<()> {
    Spec {
        kind,
        mandatory,
        is_udata: false,
    }
}

fn handle(object: u16, access: Access) -> Kind<()> {
    Kind::Handle { object, access }
}

fn with_handler(id: u16) -> MethodDefinition<u32> {
    MethodDefinition {
        id,
        handler: Some(1),
        is_default: false,
    }
}

/// The core's: object 1 with a type and method 0, which has a mandatory handle of object 2.
fn core(map: &mut Map) -> Key {
    let mut cursor = Cursor::new(false);
    cursor.object(map, 2).unwrap();
    cursor.typed_object(map, 1, Some("one"), false).unwrap();
    let method = cursor.method(map, &with_handler(0)).unwrap();
    cursor
        .attribute(map, method, 0, spec(handle(2, Access::Read), true))
        .unwrap();
    method
}

fn method_of(map: &mut Map, key: Key) -> Method<u32> {
    match map.get(key) {
        Some(Element::Method(method)) => *method,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_driver_adds_to_what_the_core_has() {
    let mut map = Map::default();
    let method = core(&mut map);
    let mut driver = Cursor::new(true);
    driver.typed_object(&mut map, 1, None, true).unwrap();
    let more = MethodDefinition {
        id: 0,
        handler: None,
        is_default: false,
    };
    assert_eq!(driver.method(&mut map, &more), Ok(method));
    let bytes = Bytes {
        min: 1,
        len: 1,
        zero_trailing: false,
        alloc_and_copy: false,
    };
    driver
        .attribute(&mut map, method, DRIVER, spec(Kind::In(bytes), true))
        .unwrap();
    assert!(!method_of(&mut map, method).is_driver);
    // With a choice the method depends on a table of the driver's.
    driver
        .attribute(&mut map, method, DRIVER + 1, spec(Kind::Enum(()), false))
        .unwrap();
    assert!(method_of(&mut map, method).is_driver);
    let own = driver.method(&mut map, &with_handler(DRIVER)).unwrap();
    assert!(method_of(&mut map, own).is_driver);
    let default = MethodDefinition {
        id: DRIVER + 1,
        handler: Some(2),
        is_default: true,
    };
    let own = driver.method(&mut map, &default).unwrap();
    assert!(!method_of(&mut map, own).is_driver);
    let sum = summarize(&mut map, method).unwrap();
    assert_eq!((sum.mandatory, sum.bits, sum.attributes), (0b11, 4, 3));
}

#[test]
fn lists_of_the_core_add_to_an_object_in_any_order() {
    let mut map = Map::default();
    // An object that only newer kernels have.
    let mut cursor = Cursor::new(false);
    cursor
        .typed_object(&mut map, 19, Some("counter"), false)
        .unwrap();
    let counter = cursor.method(&mut map, &with_handler(0)).unwrap();
    cursor.typed_object(&mut map, 1, None, true).unwrap();
    let attach = cursor.method(&mut map, &with_handler(2)).unwrap();
    cursor
        .attribute(&mut map, attach, 1, spec(handle(19, Access::Read), true))
        .unwrap();
    let method = core(&mut map);
    let object = Key::of_object(1).unwrap();
    assert_eq!(
        map.get(object),
        Some(&mut Element::Object(Object {
            of: Some("one"),
            disabled: false
        }))
    );
    remove_disabled(&mut map);
    for key in [counter, attach, method] {
        assert!(!method_of(&mut map, key).is_driver);
    }
    // Without the counters, the object has its own methods only.
    let mut cursor = Cursor::new(false);
    cursor.object(&mut map, 19).unwrap();
    cursor.unsupported(&mut map, Scope::Object).unwrap();
    remove_disabled(&mut map);
    let left = [counter, attach, method].map(|key| map.get(key).is_some());
    assert_eq!(left, [false, false, true]);
}

#[test]
fn a_driver_changes_nothing_that_is_defined() {
    let mut map = Map::default();
    let method = core(&mut map);
    let mut driver = Cursor::new(true);
    assert_eq!(
        driver.typed_object(&mut map, 1, Some("other"), true),
        Err(Refusal::Invalid)
    );
    assert_eq!(
        driver.method(&mut map, &with_handler(0)),
        Err(Refusal::Invalid)
    );
    let again = spec(handle(2, Access::Read), false);
    assert_eq!(
        driver.attribute(&mut map, method, 0, again),
        Err(Refusal::Exists)
    );
    // Of the types it may use two only, which the caller knows.
    assert_eq!(
        driver.typed_object(&mut map, DRIVER, Some("own"), false),
        Err(Refusal::Invalid)
    );
    assert_eq!(
        driver.typed_object(&mut map, DRIVER + 1, Some("own"), true),
        Ok(())
    );
}

#[test]
fn numbers_without_a_key() {
    let mut map = Map::default();
    let method = core(&mut map);
    let mut cursor = Cursor::new(false);
    assert_eq!(
        cursor.unsupported(&mut map, Scope::Object),
        Err(Refusal::Overflow)
    );
    assert_eq!(
        cursor.unsupported(&mut map, Scope::Method),
        Err(Refusal::Overflow)
    );
    assert_eq!(
        cursor.method(&mut map, &with_handler(0)),
        Err(Refusal::Overflow)
    );
    assert_eq!(cursor.object(&mut map, 20), Err(Refusal::Overflow));
    cursor.object(&mut map, 1).unwrap();
    assert_eq!(
        cursor.method(&mut map, &with_handler(21)),
        Err(Refusal::Overflow)
    );
    let any = spec(Kind::RawFile, false);
    assert_eq!(
        cursor.attribute(&mut map, method, 32, any),
        Err(Refusal::Overflow)
    );
    let write = WriteDefinition {
        number: 64,
        handler: None,
        command: Command::UNKNOWN,
        permitted: true,
    };
    assert_eq!(cursor.write(&mut map, &write), Err(Refusal::Overflow));
}

#[test]
fn several_handles_are_neither_made_nor_destroyed() {
    let mut map = Map::default();
    let method = core(&mut map);
    let cursor = Cursor::new(false);
    for (id, access) in [Access::Read, Access::Write, Access::New, Access::Destroy]
        .into_iter()
        .enumerate()
    {
        let kind = Kind::Handles {
            object: 2,
            access,
            min: 1,
            max: 2,
        };
        let result = cursor.attribute(&mut map, method, 5 + id as u16, spec(kind, false));
        assert_eq!(result.is_ok(), !access.is_exclusive());
    }
}

#[test]
fn one_object_is_made_or_destroyed_and_its_handle_must_be_given() {
    for (attributes, good) in [
        (
            vec![
                (handle(2, Access::New), true),
                (handle(2, Access::Write), false),
            ],
            true,
        ),
        (vec![(handle(2, Access::Destroy), true)], true),
        (vec![(handle(2, Access::Destroy), false)], false),
        (
            vec![
                (handle(2, Access::New), true),
                (handle(2, Access::Destroy), true),
            ],
            false,
        ),
        (
            vec![
                (handle(2, Access::New), true),
                (handle(2, Access::New), true),
            ],
            false,
        ),
    ] {
        let mut map = Map::default();
        let method = core(&mut map);
        let destroys = attributes
            .iter()
            .position(|(kind, _)| *kind == handle(2, Access::Destroy));
        for (id, (kind, mandatory)) in attributes.into_iter().enumerate() {
            Cursor::new(false)
                .attribute(&mut map, method, 1 + id as u16, spec(kind, mandatory))
                .unwrap();
        }
        let sum = summarize(&mut map, method);
        assert_eq!(sum.is_ok(), good);
        if let Ok(sum) = sum {
            let bit = destroys.and_then(|id| Bit::of_attribute(1 + id as u16));
            assert_eq!(sum.destroys, bit);
        }
    }
}

#[test]
fn without_an_object_what_needs_it_is_gone() {
    let mut map = Map::default();
    let method = core(&mut map);
    let mut cursor = Cursor::new(false);
    cursor.object(&mut map, 1).unwrap();
    // Does not need the handle.
    let other = cursor.method(&mut map, &with_handler(1)).unwrap();
    cursor
        .attribute(&mut map, other, 0, spec(handle(2, Access::Read), false))
        .unwrap();
    // Needs one of any object.
    let any = cursor.method(&mut map, &with_handler(2)).unwrap();
    cursor
        .attribute(
            &mut map,
            any,
            0,
            spec(handle(ANY_OBJECT, Access::Read), true),
        )
        .unwrap();
    // Needs one of an object that nobody defines.
    let none = cursor.method(&mut map, &with_handler(3)).unwrap();
    cursor
        .attribute(
            &mut map,
            none,
            0,
            spec(handle(DRIVER + 3, Access::Read), true),
        )
        .unwrap();
    cursor.object(&mut map, 2).unwrap();
    cursor.unsupported(&mut map, Scope::Object).unwrap();
    remove_disabled(&mut map);
    let left: Vec<u16> = map.elements.keys().copied().collect();
    let object = Key::of_object(1).unwrap();
    let attribute = Bit::of_attribute(0).unwrap();
    let expected = [
        object,
        other,
        other.attribute(attribute),
        any,
        any.attribute(attribute),
    ];
    assert_eq!(left, expected.map(Key::raw));
    assert!(!left.contains(&method.raw()));
}

#[test]
fn commands_are_those_that_the_device_permits() {
    let mut map = Map::default();
    let mut cursor = Cursor::new(false);
    cursor.object(&mut map, 0).unwrap();
    let command = |is_extended| Command {
        is_extended,
        request: 8,
        response: 4,
        has_response: true,
        has_udata: true,
    };
    let mut define = |map: &mut Map, number, is_extended, permitted| {
        let command = command(is_extended);
        cursor
            .write(
                map,
                &WriteDefinition {
                    number,
                    handler: Some(3),
                    command,
                    permitted,
                },
            )
            .unwrap();
        cursor
    };
    define(&mut map, 3, false, true);
    define(&mut map, 9, false, false);
    define(&mut map, 7, true, false);
    let last = define(&mut map, 12, true, true);
    last.unsupported(&mut map, Scope::Method).unwrap();
    assert_eq!(commands(&mut map), (10, 13));
    remove_disabled(&mut map);
    assert_eq!(commands(&mut map), (4, 8));
    // Lengths of extended commands are not checked by their headers.
    let object = Key::of_object(0).unwrap();
    let of = |map: &mut Map, key: Option<Key>| match map.get(key.unwrap()) {
        Some(Element::Write(write)) => write.command,
        other => panic!("{other:?}"),
    };
    assert_eq!(of(&mut map, object.write(3)), command(false));
    assert_eq!(
        of(&mut map, object.write_ex(7)),
        Command {
            is_extended: true,
            ..Command::UNKNOWN
        }
    );
}

proptest! {
    /// What is left after removal needs nothing that is not there, and no more was removed than that.
    #[test]
    fn removal_leaves_what_can_be_called(
        methods in prop::collection::vec((0_u16..8, 0_u16..8, 0_u16..8, any::<bool>()), 0..40),
        disabled in prop::collection::btree_set(0_u16..8, 0..5),
    ) {
        let mut map = Map::default();
        for id in 0..7 {
            Cursor::new(false).object(&mut map, id).unwrap();
        }
        for (object, method, needs, mandatory) in &methods {
            let mut cursor = Cursor::new(false);
            cursor.object(&mut map, *object).unwrap();
            let Ok(key) = cursor.method(&mut map, &with_handler(*method)) else { continue };
            cursor.attribute(&mut map, key, 0, spec(handle(*needs, Access::Read), *mandatory)).unwrap();
        }
        for id in &disabled {
            let mut cursor = Cursor::new(true);
            cursor.object(&mut map, *id).unwrap();
            cursor.unsupported(&mut map, Scope::Object).unwrap();
        }
        let before = map.elements.clone();
        let there = |id: u16| before.contains_key(&Key::of_object(id).unwrap().raw()) && !disabled.contains(&id);
        remove_disabled(&mut map);
        for (raw, element) in &before {
            let key = Key::from_raw(*raw);
            let object = key.object().raw() >> 11;
            let callable = |element: Option<&Element<&str, u32, ()>>| match element {
                Some(Element::Attribute(spec)) => !spec.mandatory || spec.object().is_none_or(there),
                _ => true,
            };
            let attribute = key.of_method().attribute(Bit::of_attribute(0).unwrap());
            let stays = there(object) && match key.place() {
                Place::Object => true,
                _ => callable(before.get(&attribute.raw())),
            };
            prop_assert_eq!(map.elements.get(raw), stays.then_some(element));
        }
    }

    /// A failed allocation leaves a tree that can be summarized and removed from.
    #[test]
    fn memory_may_run_out(room in 0_usize..4) {
        let mut map = Map { room: Some(room), ..Map::default() };
        let mut cursor = Cursor::new(false);
        let mut all = || -> Result<(), Refusal> {
            cursor.object(&mut map, 2)?;
            cursor.typed_object(&mut map, 1, Some("one"), false)?;
            let method = cursor.method(&mut map, &with_handler(0))?;
            cursor.attribute(&mut map, method, 0, spec(Kind::RawFile, true))
        };
        prop_assert_eq!(all(), Err(Refusal::NoMemory));
        remove_disabled(&mut map);
        prop_assert_eq!(map.elements.len(), room);
    }
}
