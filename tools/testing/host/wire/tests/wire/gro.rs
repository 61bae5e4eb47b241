// SPDX-License-Identifier: GPL-2.0

//! Chaining of packets that arrive one by one: what may join what, byte by byte of the
//! headers, and that taking a chain apart as the kernel does gives the same packets.

use proptest::collection::vec;
use proptest::prelude::*;
use rdma_wire::gro::{step, Arrival, Chain, Step, LOOK, MOST};
use rdma_wire::{Opcode, ICRC_LEN};

const ALONE: Step = Step::Alone;
const WAIT: Step = Step::Wait;

/// A packet of `payload` bytes behind its transport headers, of which only the room matters
/// but for two bytes of the BTH.
fn packet(v6: bool, opcode: Opcode, ack_req: bool, ident: u16, payload: usize) -> Vec<u8> {
    let mut transport = vec![0; opcode.header_len() + payload + ICRC_LEN];
    (transport[0], transport[8]) = (opcode.into(), u8::from(ack_req) << 7);
    let udp_len = u16::try_from(8 + transport.len()).unwrap();
    let (len, total, ident) = (
        udp_len.to_be_bytes(),
        (udp_len + 20).to_be_bytes(),
        ident.to_be_bytes(),
    );
    let ip: &[&[u8]] = if v6 {
        &[&[0x60, 0x20, 1, 2], &len, &[17, 64], &[1; 32]]
    } else {
        &[
            &[0x45, 2],
            &total,
            &ident,
            &[0x40, 0, 64, 17, 0, 0],
            &[10, 0, 0, 1, 10, 0, 0, 2],
        ]
    };
    let udp: &[&[u8]] = &[&[0xc1, 0x23, 0x12, 0xb7], &len, &[0, 0]];
    [&ip.concat(), &udp.concat(), &transport[..]].concat()
}

fn outer(v6: bool) -> usize {
    if v6 {
        48
    } else {
        28
    }
}

fn arrival(bytes: &[u8]) -> Arrival<'_> {
    let v6 = bytes[0] >> 4 == 6;
    Arrival {
        headers: &bytes[..outer(v6) + LOOK],
        len: bytes.len(),
    }
}

/// A chain that begins with `first` and has `count` packets as long.
fn chain(first: &[u8], count: u16) -> Chain<'_> {
    let outer = outer(first[0] >> 4 == 6);
    Chain {
        headers: &first[..outer],
        count,
        len: outer + usize::from(count) * (first.len() - outer),
        same_ident: false,
    }
}

fn middle(v6: bool, ident: u16, payload: usize) -> Vec<u8> {
    packet(v6, Opcode::RcSendMiddle, false, ident, payload)
}

/// What becomes of `new` behind one packet like it.
fn behind_one(new: &[u8]) -> Step {
    let v6 = new[0] >> 4 == 6;
    let first = middle(v6, 0, 1024);
    step(&arrival(new), Some(&chain(&first, 1)))
}

const fn join(same_ident: bool, last: bool) -> Step {
    Step::Join { same_ident, last }
}

#[test]
fn each_opcode_waits_or_ends_a_chain() {
    use Opcode::*;
    for v6 in [false, true] {
        for (opcode, ack_req, ends) in [
            (RcSendFirst, false, false),
            (RcSendMiddle, false, false),
            (RcSendLast, false, false),
            (RcSendOnly, false, false),
            (RcSendOnly, true, true),
            (RcSendMiddle, true, true),
            (RcWriteFirst, false, false),
            (RcReadRequest, true, true),
            (RcReadRespFirst, false, false),
            (RcReadRespMiddle, false, false),
            (RcReadRespLast, false, true),
            (RcReadRespOnly, false, true),
            (RcAck, false, true),
            (RcAtomicAck, false, true),
            (UcSendFirst, false, false),
            (UcSendMiddle, false, false),
            (UcSendLast, false, true),
            (UcWriteOnly, false, true),
            (UdSendOnly, false, true),
            (Cnp, false, true),
        ] {
            let new = packet(v6, opcode, ack_req, 1, 64);
            let alone = step(&arrival(&new), None);
            assert_eq!(alone, if ends { ALONE } else { WAIT }, "{opcode:?}");
            assert_eq!(behind_one(&new), join(false, ends), "{opcode:?}");
        }
    }
}

#[test]
fn idents_count_up_or_stay() {
    let first = middle(false, 0xffff, 100);
    let steps = |count, same_ident, ident| {
        let new = middle(false, ident, 100);
        let chain = Chain {
            same_ident,
            ..chain(&first, count)
        };
        step(&arrival(&new), Some(&chain))
    };
    // Of a single packet nobody knows yet.
    for same in [false, true] {
        assert_eq!(steps(1, same, 0), join(false, false));
        assert_eq!(steps(1, same, 0xffff), join(true, false));
        assert_eq!(steps(1, same, 1), WAIT);
        assert_eq!(steps(1, same, 0xfffe), WAIT);
    }
    assert_eq!(steps(2, false, 1), join(false, false));
    assert_eq!(steps(2, false, 0xffff), WAIT);
    assert_eq!(steps(2, false, 0), WAIT);
    assert_eq!(steps(2, true, 0xffff), join(true, false));
    assert_eq!(steps(2, true, 1), WAIT);
    // IPv6 has none; the same bytes are others there.
    let first = middle(true, 0, 100);
    assert_eq!(
        step(&arrival(&middle(true, 9, 100)), Some(&chain(&first, 3))),
        join(false, false)
    );
}

#[test]
fn every_byte_of_the_headers() {
    for v6 in [false, true] {
        let good = middle(v6, 1, 1024);
        assert_eq!(behind_one(&good), join(false, false));
        for at in 0..outer(v6) {
            for bit in 0..8 {
                let mut new = good.clone();
                new[at] ^= 1 << bit;
                let expected = match (v6, at) {
                    // Whoever made the chain has compared the addresses and ports; the
                    // header's checksum and, in IPv4, its own length are the stack's to check.
                    (false, 2..=3 | 10..=19 | 20..=23) | (true, 4..=5 | 8..=39 | 40..=43) => {
                        join(false, false)
                    }
                    // The ident of the first one again.
                    (false, 5) if new[5] == 0 => join(true, false),
                    // Other headers than ours.
                    (_, 0) if new[0] >> 4 != 6 && new[0] != 0x45 => ALONE,
                    // The bytes behind are not what the new version says.
                    (false, 0) => ALONE,
                    // Congestion was met.
                    (false, 1) if new[at] & 3 == 3 => ALONE,
                    (true, 1) if new[at] >> 4 & 3 == 3 => ALONE,
                    // The lengths of IP and UDP disagree, or there is a checksum.
                    (false, 24..=27) | (true, 44..=47) => ALONE,
                    // Something else than in the first one: it is the first of the next.
                    _ => WAIT,
                };
                assert_eq!(behind_one(&new), expected, "v6 {v6}, byte {at}, bit {bit}");
            }
        }
    }
}

#[test]
fn lengths() {
    for v6 in [false, true] {
        assert_eq!(behind_one(&middle(v6, 1, 1028)), WAIT);
        assert_eq!(behind_one(&middle(v6, 1, 0)), join(false, false));
        // A header that is cut short is nothing.
        let new = middle(v6, 1, 0);
        for len in 0..outer(v6) + LOOK {
            let cut = Arrival {
                headers: &new[..len],
                len: new.len(),
            };
            assert_eq!(step(&cut, None), ALONE);
        }
        // There are IP options or extension headers.
        let longer = Arrival {
            headers: &middle(v6, 1, 64)[..outer(v6) + LOOK + 8],
            ..arrival(&new)
        };
        assert_eq!(step(&longer, None), ALONE);
        // Not the UDP length, or bytes behind it.
        for len in [new.len() - 1, new.len() + 1] {
            let other = Arrival {
                len,
                ..arrival(&new)
            };
            assert_eq!(step(&other, None), ALONE);
        }
    }
}

#[test]
fn a_chain_has_an_end() {
    let first = middle(false, 0, 1024);
    let nth = |n: u16| step(&arrival(&middle(false, n, 1024)), Some(&chain(&first, n)));
    assert_eq!(nth(MOST - 2), join(false, false));
    assert_eq!(nth(MOST - 1), join(false, true));
    assert_eq!(nth(MOST), WAIT);
    // Long packets: what an IP header can say is the limit, to the byte.
    let long = |payload: usize, len: usize| {
        let first = middle(false, 0, payload);
        let chain = Chain {
            len,
            ..chain(&first, 3)
        };
        step(&arrival(&middle(false, 3, payload)), Some(&chain))
    };
    let own = 12 + 4096 + 4;
    assert_eq!(long(4096, 65535 - own), join(false, false));
    assert_eq!(long(4096, 65535 - own + 1), WAIT);
    // Nobody makes such chains.
    assert_eq!(nth(0), WAIT);
    assert_eq!(long(4096, usize::MAX), WAIT);
}

#[test]
fn unknown_opcodes_go_alone() {
    for byte in 0..=u8::MAX {
        let mut new = middle(false, 1, 64);
        new[28] = byte;
        if Opcode::try_from(byte).is_err() {
            assert_eq!(behind_one(&new), ALONE);
        } else {
            assert_ne!(behind_one(&new), WAIT);
        }
    }
}

/// A chain as the kernel keeps it: the first packet's lengths speak of all, the others are
/// as they came.
struct Held {
    first: Vec<u8>,
    later: Vec<Vec<u8>>,
    same_ident: bool,
}

impl Held {
    fn chain(&self, outer: usize) -> Chain<'_> {
        let later: usize = self.later.iter().map(|packet| packet.len() - outer).sum();
        Chain {
            headers: &self.first[..outer],
            count: u16::try_from(1 + self.later.len()).unwrap(),
            len: self.first.len() + later,
            same_ident: self.same_ident,
        }
    }

    /// Each packet by itself: its ident set from the first one's, its IP length from the
    /// buffer's, and all else its own, as `inet_gso_segment` does.
    fn apart(self, v6: bool) -> Vec<Vec<u8>> {
        let same = self.same_ident;
        let mut all = vec![self.first];
        all.extend(self.later);
        if !v6 {
            let ident = u16::from_be_bytes([all[0][4], all[0][5]]);
            for (n, packet) in (0..).zip(&mut all) {
                if !same {
                    packet[4..6].copy_from_slice(&ident.wrapping_add(n).to_be_bytes());
                }
                let len = u16::try_from(packet.len()).unwrap();
                packet[2..4].copy_from_slice(&len.to_be_bytes());
            }
        }
        all
    }
}

proptest! {
    /// Whatever comes, in whatever order: who takes the chains apart has the very packets
    /// again, in their order, and the first of a chain is the longest.
    #[test]
    fn apart_again(
        v6: bool,
        stream in vec((0u16..3, 0usize..3, 0u8..3, any::<bool>(), 0u8..2), 1..200),
        from: u16,
    ) {
        let opcodes = [Opcode::RcSendMiddle, Opcode::RcSendOnly, Opcode::RcReadRespLast];
        let mut ident = from;
        let sent: Vec<Vec<u8>> = stream
            .iter()
            .map(|&(ahead, size, opcode, ack_req, class)| {
                ident = ident.wrapping_add(ahead);
                let opcode = opcodes[usize::from(opcode)];
                let mut bytes = packet(v6, opcode, ack_req && class == 0, ident, [0, 64, 4096][size]);
                bytes[1] ^= class << if v6 { 4 } else { 0 };
                bytes
            })
            .collect();
        let mut came = Vec::new();
        let mut held: Option<Held> = None;
        let flush = |came: &mut Vec<Vec<u8>>, held: Option<Held>| {
            if let Some(held) = held {
                for later in &held.later {
                    assert!(later.len() <= held.first.len());
                }
                came.extend(held.apart(v6));
            }
        };
        for bytes in &sent {
            let new = arrival(bytes);
            let step = {
                let chain = held.as_ref().map(|held| held.chain(outer(v6)));
                step(&new, chain.as_ref())
            };
            match step {
                Step::Alone => {
                    flush(&mut came, held.take());
                    came.push(bytes.clone());
                }
                Step::Wait => {
                    flush(&mut came, held.take());
                    held = Some(Held { first: bytes.clone(), later: Vec::new(), same_ident: false });
                }
                Step::Join { same_ident, last } => {
                    let chain = held.as_mut().unwrap();
                    chain.later.push(bytes.clone());
                    chain.same_ident = same_ident;
                    prop_assert!(chain.chain(outer(v6)).len <= 65535);
                    if last {
                        flush(&mut came, held.take());
                    }
                }
            }
        }
        flush(&mut came, held);
        prop_assert_eq!(came, sent);
    }
}
