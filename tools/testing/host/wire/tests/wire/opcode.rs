// SPDX-License-Identifier: GPL-2.0

//! All 256 opcode bytes.

use rdma_wire::{
    Layout, Opcode, Operation, PayloadRule, Position, Transport, UnknownOpcode, MAX_HEADER_LEN,
};

/// The bytes that are opcodes, from the standard's table and not from ours.
fn known(byte: u8) -> bool {
    let operation = byte & 0x1f;
    match byte >> 5 {
        0b000 => operation <= 0x14 || matches!(operation, 0x16 | 0x17 | 0x1c | 0x1d),
        0b001 => operation <= 0x0b,
        0b011 => matches!(operation, 0x04 | 0x05),
        0b100 => byte == 0x81,
        0b101 => operation <= 0x14 || matches!(operation, 0x16 | 0x17),
        _ => false,
    }
}

#[test]
fn exactly_the_known_bytes_convert() {
    let mut found = Vec::new();
    for byte in 0..=255 {
        match Opcode::try_from(byte) {
            Ok(opcode) => {
                assert!(known(byte), "{byte:#04x}");
                assert_eq!(u8::from(opcode), byte);
                found.push(opcode);
            }
            Err(UnknownOpcode(refused)) => {
                assert!(!known(byte), "{byte:#04x}");
                assert_eq!(refused, byte);
            }
        }
    }
    assert_eq!(found, Opcode::ALL);
}

#[test]
fn answers_agree_with_each_other() {
    for &opcode in Opcode::ALL {
        let byte = u8::from(opcode);
        let transport = match byte >> 5 {
            0 => Transport::Rc,
            1 => Transport::Uc,
            3 => Transport::Ud,
            4 => Transport::Cnp,
            _ => Transport::Xrc,
        };
        assert_eq!(opcode.transport(), transport, "{opcode:?}");
        assert!(!(opcode.is_request() && opcode.is_response()));
        assert_eq!(
            opcode.is_request() || opcode.is_response(),
            opcode != Opcode::Cnp
        );
        // One number for both of them.
        assert_eq!(opcode.class() & 1 != 0, opcode.is_request());
        for &other in Opcode::ALL {
            let same = (transport, opcode.is_request()) == (other.transport(), other.is_request());
            assert_eq!(
                opcode.class() == other.class(),
                same,
                "{opcode:?}, {other:?}"
            );
        }
        assert_eq!(opcode.header_len(), 12 + opcode.layout().len());
        assert_eq!(opcode.layout().is_empty(), opcode.header_len() == 12);
        assert!(opcode.header_len() <= MAX_HEADER_LEN);
        assert_eq!(opcode.header_len() % 4, 0);
        assert_eq!(
            opcode.has_payload(),
            opcode.payload_rule() != PayloadRule::None
        );
        // Only these may carry immediate data, and only at the end of a message.
        if opcode.layout().has_imm() {
            assert!(opcode.position().is_end());
            assert!(matches!(
                opcode.operation(),
                Operation::Send | Operation::Write
            ));
            assert!(opcode.is_request());
        }
        // A message of several packets has all three positions.
        if opcode.position() != Position::Only {
            for position in [Position::First, Position::Middle, Position::Last] {
                assert!(Opcode::ALL.iter().any(|o| o.transport() == transport
                    && o.operation() == opcode.operation()
                    && o.position() == position));
            }
        }
    }
    assert!(Opcode::ALL.iter().any(|o| o.header_len() == MAX_HEADER_LEN));
}

/// XRC requests are those of RC with an XRCETH in front; responses are the same.
#[test]
fn xrc_mirrors_rc() {
    for &xrc in Opcode::ALL {
        if xrc.transport() != Transport::Xrc {
            continue;
        }
        let rc = Opcode::try_from(u8::from(xrc) & 0x1f).unwrap();
        assert_eq!(xrc.operation(), rc.operation());
        assert_eq!(xrc.position(), rc.position());
        assert_eq!(xrc.payload_rule(), rc.payload_rule());
        let extra = if rc.is_request() { 4 } else { 0 };
        assert_eq!(xrc.header_len(), rc.header_len() + extra, "{xrc:?}");
    }
}

/// Numbers that other programs on the wire rely on.
#[test]
fn pinned() {
    use Opcode as O;
    for (opcode, byte, header_len) in [
        (O::RcSendFirst, 0x00, 12),
        (O::RcSendOnlyImm, 0x05, 16),
        (O::RcWriteFirst, 0x06, 28),
        (O::RcWriteLastImm, 0x09, 16),
        (O::RcWriteOnlyImm, 0x0b, 32),
        (O::RcReadRequest, 0x0c, 28),
        (O::RcReadRespFirst, 0x0d, 16),
        (O::RcReadRespMiddle, 0x0e, 12),
        (O::RcAck, 0x11, 16),
        (O::RcAtomicAck, 0x12, 24),
        (O::RcCompareSwap, 0x13, 40),
        (O::RcSendOnlyInv, 0x17, 16),
        (O::RcFlush, 0x1c, 32),
        (O::RcAtomicWrite, 0x1d, 28),
        (O::UcWriteOnly, 0x2a, 28),
        (O::UdSendOnly, 0x64, 20),
        (O::UdSendOnlyImm, 0x65, 24),
        (O::Cnp, 0x81, 28),
        (O::XrcCompareSwap, 0xb3, 44),
    ] {
        assert_eq!(u8::from(opcode), byte);
        assert_eq!(opcode.header_len(), header_len, "{opcode:?}");
    }
    assert_eq!(O::RcFlush.layout(), Layout::FethReth);
}

#[test]
fn payload_rules() {
    let mtu = 1024;
    for (rule, good, bad) in [
        (PayloadRule::None, vec![0], vec![1, mtu]),
        (PayloadRule::Fixed(8), vec![8], vec![0, 7, 9]),
        (PayloadRule::Mtu, vec![mtu], vec![0, mtu - 1, mtu + 1]),
        (PayloadRule::OneToMtu, vec![1, mtu], vec![0, mtu + 1]),
        (PayloadRule::ZeroToMtu, vec![0, 1, mtu], vec![mtu + 1]),
    ] {
        for len in good {
            assert!(rule.permits(len, mtu), "{rule:?} {len}");
            assert!(rule.permits_on_any_path(len));
        }
        for len in bad {
            assert!(!rule.permits(len, mtu), "{rule:?} {len}");
        }
    }
    assert_eq!(Opcode::RcSendFirst.payload_rule(), PayloadRule::Mtu);
    assert_eq!(Opcode::RcWriteLast.payload_rule(), PayloadRule::OneToMtu);
    assert_eq!(Opcode::UdSendOnly.payload_rule(), PayloadRule::ZeroToMtu);
    assert_eq!(Opcode::RcAtomicWrite.payload_rule(), PayloadRule::Fixed(8));
    assert_eq!(Opcode::RcAck.payload_rule(), PayloadRule::None);
}
