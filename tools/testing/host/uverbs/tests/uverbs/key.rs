// SPDX-License-Identifier: GPL-2.0

//! Keys: what has one, and that no two elements share one.

use rdma_uverbs_engines::proto::key::{Bit, Key, Place, BITS};
use std::collections::BTreeMap;

const DRIVER: u16 = 1 << 12;

#[test]
fn numbers_that_have_keys() {
    for id in 0..=u16::MAX {
        let (driver, low) = (id & DRIVER != 0, id & !DRIVER);
        let limit = |core, of_driver| low < if driver { of_driver } else { core };
        assert_eq!(
            Key::of_object(id).is_some(),
            limit(20, 12),
            "object {id:#x}"
        );
        assert_eq!(
            Bit::of_attribute(id).is_some(),
            limit(32, 31),
            "attribute {id:#x}"
        );
        let object = Key::of_object(0).unwrap();
        assert_eq!(object.method(id).is_some(), limit(21, 8), "method {id:#x}");
        assert_eq!(object.write(id).is_some(), id < 64);
        assert_eq!(object.write_ex(id).is_some(), id < 64);
    }
}

#[test]
fn keys_are_distinct_and_tell_what_they_are_of() {
    let mut all = BTreeMap::new();
    let mut add = |key: Key, place, what: String| {
        assert_eq!(key.place(), place, "{what}");
        assert_eq!(Key::from_raw(key.raw()), key);
        assert_eq!(all.insert(key.raw(), what.clone()), None, "{what}");
    };
    for object_id in 0..=u16::MAX {
        let Some(object) = Key::of_object(object_id) else {
            continue;
        };
        add(object, Place::Object, format!("object {object_id}"));
        for id in (0..64).chain(DRIVER..DRIVER + 64) {
            for (key, place) in [
                (object.write(id), Place::Write(id as u8)),
                (object.write_ex(id), Place::WriteEx(id as u8)),
            ] {
                if let Some(key) = key {
                    assert_eq!(key.object(), object);
                    add(key, place, format!("{object_id} {place:?}"));
                }
            }
            let Some(method) = object.method(id) else {
                continue;
            };
            assert_eq!(method.object(), object);
            add(method, Place::Method, format!("{object_id} method {id}"));
            for attribute in (0..64).chain(DRIVER..DRIVER + 64) {
                let Some(bit) = Bit::of_attribute(attribute) else {
                    continue;
                };
                let key = method.attribute(bit);
                assert!(u32::from(bit.get()) < BITS);
                assert_eq!((key.of_method(), key.object()), (method, object));
                assert!(method.family().contains(&key.raw()));
                assert!(object.family().contains(&key.raw()));
                add(
                    key,
                    Place::Attribute(bit),
                    format!("{object_id} {id} {attribute}"),
                );
            }
        }
    }
    // 32 objects; each has 29 methods of 63 attributes, and twice 64 commands.
    assert_eq!(all.len(), 32 * (1 + 29 * 64 + 128));
}

#[test]
fn attributes_of_core_and_driver_interleave() {
    let bits: Vec<u8> = [0, DRIVER, 1, DRIVER + 1, 31]
        .map(|id| Bit::of_attribute(id).unwrap().get())
        .into();
    assert_eq!(bits, [0, 1, 2, 3, 62]);
}

#[test]
fn an_objects_key_tells_its_number() {
    for id in 0..=u16::MAX {
        if let Some(key) = Key::of_object(id) {
            assert_eq!(key.object_id(), id);
            if let Some(method) = key.method(3) {
                assert_eq!(method.object_id(), id);
            }
        }
    }
}
