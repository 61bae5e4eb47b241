// SPDX-License-Identifier: GPL-2.0

//! Headers and attributes of ioctls.

use proptest::prelude::*;
use rdma_uverbs_engines::proto::ioctl::*;
use rdma_uverbs_engines::proto::key::Bit;
use rdma_uverbs_engines::proto::spec::*;
use rdma_uverbs_engines::proto::Refusal;

/// Choices 0 and 2 are of these bytes; 1 is not of bytes.
struct Three(Bytes);

impl Choices for Three {
    fn known(&self, choice: u8) -> bool {
        choice < 3
    }

    fn get(&self, choice: u8) -> Option<Bytes> {
        (choice != 1).then_some(self.0)
    }
}

const BYTES: Bytes = Bytes {
    min: 4,
    len: 6,
    zero_trailing: false,
    alloc_and_copy: false,
};
const GROWING: Bytes = Bytes {
    zero_trailing: true,
    ..BYTES
};

fn spec(kind: Kind<Three>) -> Spec<Three> {
    Spec {
        kind,
        mandatory: false,
        is_udata: false,
    }
}

/// Attribute 5 with a length, the halfword that is for choices, and data.
fn attribute(len: u16, choice: u16, data: u64) -> Attribute {
    let mut bytes = [0; ATTRIBUTE];
    bytes[..2].copy_from_slice(&5_u16.to_ne_bytes());
    bytes[2..4].copy_from_slice(&len.to_ne_bytes());
    bytes[6..8].copy_from_slice(&choice.to_le_bytes());
    bytes[8..].copy_from_slice(&data.to_ne_bytes());
    Attribute::parse(bytes)
}

fn flagged(id: u16, flags: u16) -> Attribute {
    let mut bytes = [0; ATTRIBUTE];
    bytes[..2].copy_from_slice(&id.to_ne_bytes());
    bytes[4..6].copy_from_slice(&flags.to_ne_bytes());
    Attribute::parse(bytes)
}

/// Judges it; memory of the program is all zeros.
fn judge(kind: Kind<Three>, attribute: Attribute) -> Result<Step, Refusal> {
    let spec = spec(kind);
    Call::new().judge(&attribute, |_| Some(&spec), |_, _| true)
}

fn bit() -> Bit {
    Bit::of_attribute(5).unwrap()
}

#[test]
fn headers() {
    let good = Header {
        length: 24 + 3 * 16,
        object: 1,
        method: 2,
        attributes: 3,
        reserved1: 0,
        driver: 9,
        reserved2: 0,
    };
    assert_eq!(good.check(4096), Ok(()));
    for length in [0, 24, 71, 73, 88] {
        assert_eq!(Header { length, ..good }.check(4096), Err(Refusal::Invalid));
    }
    assert_eq!(
        Header {
            reserved1: 1,
            ..good
        }
        .check(4096),
        Err(Refusal::NoProtocol)
    );
    assert_eq!(
        Header {
            reserved2: 1,
            ..good
        }
        .check(4096),
        Err(Refusal::NoProtocol)
    );
    // The length is checked first.
    assert_eq!(
        Header {
            reserved2: 1,
            length: 0,
            ..good
        }
        .check(4096),
        Err(Refusal::Invalid)
    );
    let most = Header {
        length: 24 + 254 * 16,
        attributes: 254,
        ..good
    };
    assert_eq!(most.check(4096), Ok(()));
    let more = Header {
        length: 24 + 255 * 16,
        attributes: 255,
        ..good
    };
    assert_eq!(more.check(4096), Err(Refusal::Invalid));
    assert_eq!(more.check(65536), Ok(()));
}

#[test]
fn unknown_attributes_are_ignored_unless_the_program_insists() {
    let none = |_: Bit| None::<&Spec<Three>>;
    let call = Call::new();
    for id in [5, 0xffff, 0x1fff] {
        assert_eq!(
            call.judge(&flagged(id, 0xfffe), none, |_, _| true),
            Ok(Step::Ignore)
        );
        assert_eq!(
            call.judge(&flagged(id, 1), none, |_, _| true),
            Err(Refusal::NoProtocol)
        );
    }
}

#[test]
fn an_attribute_may_be_given_once() {
    let mut call = Call::new();
    let spec = spec(Kind::Out(BYTES));
    // Until its step was carried out it may be judged again.
    assert!(call
        .judge(&attribute(4, 0, 0), |_| Some(&spec), |_, _| true)
        .is_ok());
    call.note(bit());
    // Before anything else of it is looked at.
    assert_eq!(
        call.judge(&attribute(0, 1, 0), |_| Some(&spec), |_, _| true),
        Err(Refusal::Invalid)
    );
    assert!(call.has(bit()) && call.present() == bit().mask());
    assert_eq!(call.complete(bit().mask()), Ok(()));
    assert_eq!(call.complete(bit().mask() | 1), Err(Refusal::Invalid));
}

#[test]
fn lengths_of_bytes() {
    for kind in [Kind::In as fn(Bytes) -> Kind<Three>, Kind::Out] {
        let ok = Ok(Step::Bytes {
            bit: bit(),
            choice: None,
            copy: false,
        });
        let refused = Err(Refusal::Invalid);
        for (len, expected) in [(3, refused), (4, ok), (6, ok), (7, refused)] {
            assert_eq!(judge(kind(BYTES), attribute(len, 0, 0)), expected);
        }
    }
    assert_eq!(
        judge(Kind::In(BYTES), attribute(4, 1, 0)),
        Err(Refusal::Invalid)
    );
    assert_eq!(
        judge(Kind::In(BYTES), attribute(4, 0x100, 0)),
        Err(Refusal::Invalid)
    );
}

#[test]
fn unknown_trailing_bytes_must_be_zero() {
    // Inline: bytes 6 and 7 of the data.
    assert!(judge(Kind::In(GROWING), attribute(8, 0, 0xffff_ffff_ffff)).is_ok());
    assert_eq!(
        judge(Kind::In(GROWING), attribute(8, 0, 1 << 48)),
        Err(Refusal::NotSupported)
    );
    assert_eq!(
        judge(Kind::In(GROWING), attribute(7, 0, 1 << 48)),
        Err(Refusal::NotSupported)
    );
    assert!(judge(Kind::In(GROWING), attribute(7, 0, 1 << 56)).is_ok());
    // This comes before the reserved field.
    assert_eq!(
        judge(Kind::In(GROWING), attribute(8, 1, 1 << 48)),
        Err(Refusal::NotSupported)
    );
    // In memory: what is asked about is what is beyond.
    let mut asked = None;
    let spec = spec(Kind::In(GROWING));
    let far = attribute(9, 0, 0x1000);
    let result = Call::new().judge(
        &far,
        |_| Some(&spec),
        |at, len| {
            asked = Some((at, len));
            false
        },
    );
    assert_eq!(
        (result, asked),
        (Err(Refusal::NotSupported), Some((0x1006, 3)))
    );
    // Of what a method writes any length is accepted.
    assert!(judge(Kind::Out(GROWING), attribute(u16::MAX, 0, 0)).is_ok());
    // An address near the end of memory does not overflow.
    assert!(judge(Kind::In(GROWING), attribute(u16::MAX, 0, u64::MAX)).is_ok());
}

#[test]
fn copies_are_of_what_is_not_inline() {
    let copied = Bytes {
        alloc_and_copy: true,
        len: 100,
        ..BYTES
    };
    let copy = |len| match judge(Kind::In(copied), attribute(len, 0, 0)) {
        Ok(Step::Bytes { copy, .. }) => copy,
        other => panic!("{other:?}"),
    };
    assert!(!copy(8) && copy(9));
}

#[test]
fn choices() {
    let kind = || Kind::Enum(Three(GROWING));
    let chosen = |choice| {
        Ok(Step::Bytes {
            bit: bit(),
            choice: Some(choice),
            copy: false,
        })
    };
    assert_eq!(judge(kind(), attribute(4, 0, 0)), chosen(0));
    assert_eq!(judge(kind(), attribute(4, 2, 0)), chosen(2));
    assert_eq!(
        judge(kind(), attribute(4, 1, 0)),
        Err(Refusal::NotSupported)
    );
    assert_eq!(
        judge(kind(), attribute(4, 3, 0)),
        Err(Refusal::NotSupported)
    );
    // The choice is looked at before the reserved byte, that before what is chosen.
    assert_eq!(
        judge(kind(), attribute(4, 0x103, 0)),
        Err(Refusal::NotSupported)
    );
    assert_eq!(judge(kind(), attribute(4, 0x101, 0)), Err(Refusal::Invalid));
    assert_eq!(judge(kind(), attribute(3, 2, 0)), Err(Refusal::Invalid));
    assert_eq!(
        judge(kind(), attribute(8, 2, u64::MAX)),
        Err(Refusal::NotSupported)
    );
}

#[test]
fn objects_and_files() {
    for access in [Access::Read, Access::Write, Access::New, Access::Destroy] {
        let step = Step::Object {
            bit: bit(),
            object: 7,
            access,
            handle: -1,
        };
        for kind in [
            Kind::Handle { object: 7, access },
            Kind::File { object: 7, access },
        ] {
            assert_eq!(judge(kind, attribute(0, 0, u64::MAX)), Ok(step));
        }
    }
    let kind = || Kind::Handle {
        object: 7,
        access: Access::Read,
    };
    assert_eq!(judge(kind(), attribute(1, 0, 0)), Err(Refusal::Invalid));
    assert_eq!(judge(kind(), attribute(0, 1, 0)), Err(Refusal::Invalid));
    for file in [0, -1, i32::MAX, i32::MIN] {
        let data = i64::from(file) as u64;
        assert_eq!(
            judge(Kind::RawFile, attribute(0, 0, data)),
            Ok(Step::File { bit: bit(), file })
        );
    }
    for data in [1 << 31, u64::MAX << 32, 1 << 63] {
        assert_eq!(
            judge(Kind::RawFile, attribute(0, 0, data)),
            Err(Refusal::Invalid)
        );
    }
}

#[test]
fn handles() {
    let kind = || Kind::Handles {
        object: 7,
        access: Access::Read,
        min: 1,
        max: 3,
    };
    for len in 0..40 {
        let expected = match len {
            4 | 8 | 12 => Ok(Step::Objects {
                bit: bit(),
                object: 7,
                access: Access::Read,
                count: len / 4,
            }),
            _ => Err(Refusal::Invalid),
        };
        assert_eq!(judge(kind(), attribute(len, 0, 0)), expected);
        assert_eq!(judge(kind(), attribute(len, 1, 0)), Err(Refusal::Invalid));
    }
}

fn any_kind() -> impl Strategy<Value = u8> {
    0_u8..7
}

proptest! {
    /// Whatever a program sends is judged, and nothing is accepted beyond what the specification says.
    #[test]
    fn nothing_is_accepted_beyond_the_specification(bytes: [u8; 16], which in any_kind(), min: u16, len: u16,
                                                    zero_trailing: bool, alloc_and_copy: bool, cleared: bool) {
        let limits = Bytes { min, len, zero_trailing, alloc_and_copy };
        let kind = match which {
            0 => Kind::In(limits),
            1 => Kind::Out(limits),
            2 => Kind::Handle { object: 3, access: Access::Read },
            3 => Kind::File { object: 3, access: Access::New },
            4 => Kind::RawFile,
            5 => Kind::Enum(Three(limits)),
            _ => Kind::Handles { object: 3, access: Access::Read, min, max: len },
        };
        let spec = spec(kind);
        let mut bytes = bytes;
        // A number that there is.
        let id = u16::from(bytes[0]) % 31;
        bytes[..2].copy_from_slice(&id.to_ne_bytes());
        let attribute = Attribute::parse(bytes);
        match Call::new().judge(&attribute, |_| Some(&spec), |_, _| cleared) {
            Ok(Step::Bytes { copy, choice, .. }) => {
                prop_assert!(attribute.len >= min);
                prop_assert!(attribute.len <= len || zero_trailing);
                prop_assert!(!copy || (alloc_and_copy && attribute.len > 8));
                prop_assert_eq!(choice.is_some(), which == 5);
                if attribute.len > len && which != 1 {
                    prop_assert!(attribute.len <= 8 || cleared);
                }
            }
            Ok(Step::Objects { count, .. }) => prop_assert!(count >= min && count <= len && count * 4 == attribute.len),
            Ok(Step::Object { handle, .. }) => prop_assert!(attribute.len == 0 && handle == attribute.handle()),
            Ok(Step::File { file, .. }) => prop_assert_eq!(i64::from(file), attribute.handle()),
            Ok(Step::Ignore) => prop_assert!(false),
            Err(refusal) => prop_assert!(matches!(refusal, Refusal::Invalid | Refusal::NotSupported)),
        }
    }
}

#[test]
fn access_of_one_handle_and_of_several() {
    let access = Access::Write;
    let one = spec(Kind::Handle { object: 1, access });
    assert_eq!((one.access(), one.array_access()), (Some(access), None));
    let several = spec(Kind::Handles {
        object: 1,
        access,
        min: 0,
        max: 1,
    });
    assert_eq!(
        (several.access(), several.array_access()),
        (None, Some(access))
    );
    let none = spec(Kind::RawFile);
    assert_eq!((none.access(), none.array_access()), (None, None));
}
