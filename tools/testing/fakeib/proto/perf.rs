// SPDX-License-Identifier: GPL-2.0

//! Performance management: what ports have counted (IBA 16.1).

use super::fields::Fields;
use super::mad;
use super::mad::at;
use super::mad::Answer;
use super::mad::Mad;
use super::mad::Status;
use super::port::Counters;
use super::port::Port;

/// What the agent can.
const CLASS_PORT_INFO: u16 = 0x01;
/// Counters of 32 bits and less.
const PORT_COUNTERS: u16 = 0x12;
/// Counters of 64 bits.
const PORT_COUNTERS_EXT: u16 = 0x1d;
/// Capability: there are counters of 64 bits, also for multicast.
const EXT_WIDTH: u16 = 1 << 9;
/// All ports.
const ALL_PORTS: u8 = 0xff;

/// Answers a datagram of performance management that was sent to the node of `ports`.
pub fn answer(ports: &mut [Port], mad: &mut Mad) -> Answer {
    let method = mad.u8(at::METHOD);
    match method {
        mad::GET | mad::SET => (),
        m if m & 0x80 != 0 => return Answer::Others,
        _ => {
            mad::into_answer(mad, Status::BadMethod);
            return Answer::Reply;
        }
    }
    if mad.u8(at::CLASS_VERSION) != 1 {
        mad::into_answer(mad, Status::BadVersion);
        return Answer::Reply;
    }
    let status = match attribute(ports, method == mad::SET, mad) {
        Ok(()) => Status::Good,
        Err(status) => status,
    };
    mad::into_answer(mad, status);
    Answer::Reply
}

fn attribute(ports: &mut [Port], set: bool, mad: &mut Mad) -> Result<(), Status> {
    let attribute = mad.u16(at::ATTRIBUTE);
    let data = mad.get_mut(at::DATA..).ok_or(Status::BadField)?;
    match attribute {
        CLASS_PORT_INFO => {
            data.fill(0);
            data.put(0, &[1, 1]);
            data.put_u16(2, EXT_WIDTH);
            data.put_u8(7, super::port_info::RESPONSE_TIME);
        }
        PORT_COUNTERS | PORT_COUNTERS_EXT => {
            let (which, selected) = (data.u8(1), data.u16(2));
            let mut found = false;
            let mut sum = Counters::default();
            for port in ports.iter_mut() {
                if which != ALL_PORTS && which != port.number {
                    continue;
                }
                found = true;
                if set {
                    clear(&mut port.counters, attribute, selected);
                }
                sum = added(&sum, &port.counters);
            }
            if !found {
                return Err(Status::BadField);
            }
            // Where it begins says which port and which counters, and stays.
            if let Some(rest) = data.get_mut(4..) {
                rest.fill(0);
            }
            if attribute == PORT_COUNTERS {
                tell(&sum, data);
            } else {
                tell_ext(&sum, data);
            }
        }
        _ => return Err(Status::BadAttribute),
    }
    Ok(())
}

/// The record of short counters, which stop at all ones.
fn tell(c: &Counters, data: &mut [u8]) {
    let short = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
    data.put_u8(7, c.link_downed);
    data.put_u16(14, c.discards);
    data.put_u8(17, c.rcv_constraint);
    data.put_u32(24, short(c.sent_bytes / 4));
    data.put_u32(28, short(c.rcvd_bytes / 4));
    data.put_u32(32, short(c.sent));
    data.put_u32(36, short(c.rcvd));
}

/// The record of long counters. Data are counted in words of four bytes.
fn tell_ext(c: &Counters, data: &mut [u8]) {
    let values = [
        c.sent_bytes / 4,
        c.rcvd_bytes / 4,
        c.sent,
        c.rcvd,
        c.sent.wrapping_sub(c.sent_multicast),
        c.rcvd.wrapping_sub(c.rcvd_multicast),
        c.sent_multicast,
        c.rcvd_multicast,
    ];
    for (i, value) in values.into_iter().enumerate() {
        data.put_u64(8 + 8 * i, value);
    }
}

/// Clears the counters that a mask selects.
fn clear(c: &mut Counters, attribute: u16, selected: u16) {
    let has = |bit: u16| selected & 1 << bit != 0;
    let (data, packets) = if attribute == PORT_COUNTERS {
        if has(2) {
            c.link_downed = 0;
        }
        if has(6) {
            c.discards = 0;
        }
        if has(8) {
            c.rcv_constraint = 0;
        }
        (12, 14)
    } else {
        (0, 2)
    };
    if has(data) {
        c.sent_bytes = 0;
    }
    if has(data + 1) {
        c.rcvd_bytes = 0;
    }
    if has(packets) {
        (c.sent, c.sent_multicast) = (0, 0);
    }
    if has(packets + 1) {
        (c.rcvd, c.rcvd_multicast) = (0, 0);
    }
}

fn added(a: &Counters, b: &Counters) -> Counters {
    Counters {
        link_downed: a.link_downed.saturating_add(b.link_downed),
        discards: a.discards.saturating_add(b.discards),
        rcv_constraint: a.rcv_constraint.saturating_add(b.rcv_constraint),
        sent_bytes: a.sent_bytes.wrapping_add(b.sent_bytes),
        rcvd_bytes: a.rcvd_bytes.wrapping_add(b.rcvd_bytes),
        sent: a.sent.wrapping_add(b.sent),
        rcvd: a.rcvd.wrapping_add(b.rcvd),
        sent_multicast: a.sent_multicast.wrapping_add(b.sent_multicast),
        rcvd_multicast: a.rcvd_multicast.wrapping_add(b.rcvd_multicast),
    }
}
