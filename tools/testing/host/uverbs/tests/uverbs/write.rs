// SPDX-License-Identifier: GPL-2.0

//! Headers of commands that programs write.

use proptest::prelude::*;
use rdma_uverbs_engines::proto::write::*;
use rdma_uverbs_engines::proto::Refusal;

const QUERY: Command = Command {
    is_extended: false,
    request: 8,
    response: 16,
    has_response: true,
    has_udata: true,
};

fn header(command: u32, in_words: u16, out_words: u16) -> Header {
    Header {
        command,
        in_words,
        out_words,
    }
}

#[test]
fn numbers() {
    assert_eq!(header(7, 0, 0).number(), Ok(Number::Plain(7)));
    assert_eq!(
        header(0x8000_00ff, 0, 0).number(),
        Ok(Number::Extended(255))
    );
    for bit in 8..31 {
        assert_eq!(header(1 << bit, 0, 0).number(), Err(Refusal::Invalid));
    }
}

#[test]
fn a_plain_command_is_split() {
    let layout = plain(&header(1, 6, 5), 24, &QUERY).unwrap();
    assert_eq!(layout.core_in, Span { at: 8, len: 8 });
    assert_eq!(layout.driver_in, Span { at: 16, len: 8 });
    assert_eq!(layout.answer, Answer::InRequest);
    assert_eq!(layout.core_out, Span { at: 0, len: 16 });
    assert_eq!(layout.driver_out, Span { at: 16, len: 4 });
    // Without a driver's part all is the core's.
    let core = Command {
        has_udata: false,
        ..QUERY
    };
    let layout = plain(&header(1, 6, 5), 24, &core).unwrap();
    assert_eq!((layout.core_in.len, layout.driver_in.len), (16, 0));
    assert_eq!((layout.core_out.len, layout.driver_out.len), (20, 0));
}

#[test]
fn the_first_fault_of_a_plain_command_counts() {
    assert_eq!(plain(&header(1, 6, 0), 28, &QUERY), Err(Refusal::Invalid));
    assert_eq!(plain(&header(1, 3, 0), 12, &QUERY), Err(Refusal::NoSpace));
    assert_eq!(plain(&header(1, 4, 3), 16, &QUERY), Err(Refusal::NoSpace));
    assert!(plain(&header(1, 4, 4), 16, &QUERY).is_ok());
    // What a device does not have is refused by its handler only.
    assert!(plain(&header(9, 2, 0), 8, &Command::UNKNOWN).is_ok());
    assert_eq!(
        plain(&header(9, 1, 0), 8, &Command::UNKNOWN),
        Err(Refusal::Invalid)
    );
}

#[test]
fn a_short_destroy_cq_is_read_to_its_end() {
    let destroy = Command {
        request: 16,
        response: 8,
        has_udata: false,
        ..QUERY
    };
    let layout = plain(&header(20, 4, 0), 16, &destroy).unwrap();
    assert_eq!(layout.core_in, Span { at: 8, len: 16 });
    assert_eq!(
        plain(&header(19, 4, 2), 16, &destroy),
        Err(Refusal::NoSpace)
    );
    assert_eq!(
        plain(&header(20, 3, 2), 12, &destroy),
        Err(Refusal::NoSpace)
    );
}

#[test]
fn the_first_fault_of_an_extended_command_counts() {
    let command = Command {
        is_extended: true,
        ..Command::UNKNOWN
    };
    let of = |words: [u16; 4], response, reserved, count, writable| {
        let [in_words, out_words, provider_in_words, provider_out_words] = words;
        let more = ExtendedHeader {
            response,
            provider_in_words,
            provider_out_words,
            reserved,
        };
        extended(
            &header(0x8000_0032, in_words, out_words),
            &more,
            count,
            &command,
            |_, _| writable,
        )
    };
    assert!(of([1, 2, 3, 4], 64, 0, 24 + 32, true).is_ok());
    assert_eq!(
        of([1, 2, 3, 4], 64, 1, 24 + 31, false),
        Err(Refusal::Invalid)
    );
    assert_eq!(
        of([1, 2, 3, 4], 64, 1, 24 + 32, false),
        Err(Refusal::Invalid)
    );
    assert_eq!(of([1, 2, 3, 4], 64, 0, 24 + 32, false), Err(Refusal::Fault));
    assert_eq!(
        of([1, 0, 3, 0], 64, 0, 24 + 32, true),
        Err(Refusal::Invalid)
    );
    assert_eq!(of([1, 0, 3, 1], 0, 0, 24 + 32, true), Err(Refusal::Invalid));
    assert!(of([1, 0, 3, 0], 0, 0, 24 + 32, false).is_ok());
    let short = Command {
        request: 9,
        response: 9,
        ..command
    };
    let more = ExtendedHeader {
        response: 64,
        provider_in_words: 0,
        provider_out_words: 0,
        reserved: 0,
    };
    let of = |in_words, out_words| {
        let count = 24 + usize::from(in_words) * 8;
        extended(
            &header(0x8000_0032, in_words, out_words),
            &more,
            count,
            &short,
            |_, _| true,
        )
    };
    assert_eq!(of(1, 9), Err(Refusal::NoSpace));
    assert_eq!(of(2, 1), Err(Refusal::NoSpace));
    assert!(of(2, 2).is_ok());
}

proptest! {
    /// The parts lie within what was written and what there is room for, and do not overlap.
    #[test]
    fn parts_are_within_the_whole(bytes: [u8; 8], more: [u8; 16], request: u8, response: u8,
                                  has_response: bool, has_udata: bool, other in 0_usize..1 << 20, fits: bool) {
        let header = Header::parse(bytes);
        let more = ExtendedHeader::parse(more);
        let command = Command { is_extended: false, request, response, has_response, has_udata };
        let count = if fits { usize::from(header.in_words) * 4 } else { other };
        if let Ok(layout) = plain(&header, count, &command) {
            let end = if header.command == 20 && count == 16 { count.max(24) } else { count };
            prop_assert_eq!(layout.core_in.at, HEADER);
            prop_assert_eq!(layout.driver_in.at, HEADER + layout.core_in.len);
            prop_assert!(layout.driver_in.at + layout.driver_in.len <= end);
            prop_assert!(layout.core_out.len + layout.driver_out.len <= usize::from(header.out_words) * 4);
        }
        let whole = 24 + (usize::from(header.in_words) + usize::from(more.provider_in_words)) * 8;
        let count = if fits { whole } else { other };
        if let Ok(layout) = extended(&header, &more, count, &command, |_, _| true) {
            prop_assert_eq!(layout.driver_in.at + layout.driver_in.len, count);
            prop_assert_eq!(layout.driver_out.at, layout.core_out.len);
            prop_assert_eq!(layout.answer == Answer::None, more.response == 0);
        }
    }
}
