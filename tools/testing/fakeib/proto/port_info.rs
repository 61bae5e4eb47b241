// SPDX-License-Identifier: GPL-2.0

//! `PortInfo` of a port: how it is told, and what setting it does (IBA 14.2.5.6).

use super::fields::byte_of;
use super::fields::halves;
use super::fields::Fields;
use super::mad::Status;
use super::mad::SMP_DATA;
use super::port::Events;
use super::port::Phys;
use super::port::Port;
use super::port::Role;
use super::port::State;
use super::port::GUIDS;

/// Widths: 1X and 4X.
pub const WIDTHS: u8 = 0x03;
/// Width at work: 4X.
pub const WIDTH_ACTIVE: u8 = 2;
/// Old speeds: 2.5, 5 and 10 Gbit/s a lane.
pub const SPEEDS: u8 = 7;
/// Old speed at work: 10 Gbit/s a lane.
pub const SPEED_ACTIVE: u8 = 4;
/// Extended speeds: 14 and 25 Gbit/s a lane.
pub const SPEEDS_EXT: u8 = 3;
/// Extended speed at work: 25 Gbit/s a lane.
pub const SPEED_EXT_ACTIVE: u8 = 2;
/// Code of the largest packet: 4096 bytes.
pub const MTU_CAP: u8 = 5;
/// Code of the number of lanes: 8.
pub const LANES_CAP: u8 = 4;
/// Entries of each of the arbitration tables.
pub const ARBITRATION_CAP: u8 = 8;
/// Code of the time that an agent may take to answer: 4.096 us << 16.
pub const RESPONSE_TIME: u8 = 16;
/// The first LID of groups.
pub const FIRST_MULTICAST: u16 = 0xc000;

/// Capability: a subnet manager runs here.
pub const CAP_IS_SM: u32 = 1 << 1;
/// Capability: sends traps.
pub const CAP_TRAPS: u32 = 1 << 3;
/// Capability: lanes by service levels.
pub const CAP_SL_MAP: u32 = 1 << 6;
/// Capability: tells extended speeds.
pub const CAP_EXT_SPEEDS: u32 = 1 << 14;
/// Capability: has a system image GUID.
pub const CAP_SYSTEM_GUID: u32 = 1 << 11;
/// Capability: a connection manager runs here.
pub const CAP_CM: u32 = 1 << 16;
/// Capability: tells of changes of capabilities.
pub const CAP_MASK_NOTICE: u32 = 1 << 22;
/// Capability: has a bit for clients to register again.
pub const CAP_REREGISTER: u32 = 1 << 25;

/// What is to be done with the link after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Nothing.
    Leave,
    /// It goes down, and this end to that state, from which it may come up at once.
    Drop(Phys),
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// For the driver.
    pub events: Events,
    /// For the cable.
    pub link: Link,
}

/// The record of a port, for one who asks through port `via` of the node. `show_mkey` if they
/// know the M_Key or need not.
pub fn get(port: &Port, via: u8, show_mkey: bool) -> [u8; SMP_DATA] {
    let mut out = [0; SMP_DATA];
    let up = port.phys == Phys::LinkUp;
    if port.role.is_end() {
        if show_mkey {
            out.put_u64(0, port.mkey);
        }
        out.put_u64(8, port.prefix);
        out.put_u16(16, port.lid);
        out.put_u16(18, port.sm_lid);
        out.put_u32(20, port.capabilities);
        out.put_u16(26, port.mkey_lease);
    }
    out.put_u8(28, via);
    out.put_u8(29, port.width_enabled);
    out.put_u8(30, WIDTHS);
    out.put_u8(31, if up { WIDTH_ACTIVE } else { 0 });
    // CAST: the enums are `repr(u8)`.
    out.put_u8(32, byte_of(SPEEDS, port.state as u8));
    out.put_u8(33, byte_of(port.phys as u8, port.down_default as u8));
    out.put_u8(34, port.mkey_protect << 6 | port.lmc & 7);
    out.put_u8(
        35,
        byte_of(if up { SPEED_ACTIVE } else { 0 }, port.speed_enabled),
    );
    out.put_u8(36, byte_of(port.mtu, port.sm_sl));
    out.put_u8(37, byte_of(LANES_CAP, 0));
    out.put_u8(38, port.high_limit);
    out.put_u8(39, ARBITRATION_CAP);
    out.put_u8(40, ARBITRATION_CAP);
    out.put_u8(41, byte_of(0, MTU_CAP));
    out.put_u8(42, port.stall);
    out.put_u8(43, byte_of(port.lanes, port.filters));
    for (i, count) in port.violations.iter().enumerate() {
        out.put_u16(44 + 2 * i, *count);
    }
    // CAST: a small constant.
    out.put_u8(50, if port.role.is_end() { GUIDS as u8 } else { 0 });
    out.put_u8(51, port.subnet_timeout);
    out.put_u8(52, RESPONSE_TIME);
    out.put_u8(53, port.thresholds);
    out.put_u8(
        62,
        byte_of(if up { SPEED_EXT_ACTIVE } else { 0 }, SPEEDS_EXT),
    );
    out.put_u8(63, port.speed_ext_enabled);
    out
}

/// Sets what the record `new` asks for.
///
/// # Errors
///
/// `BadField`, and then nothing has changed.
pub fn set(port: &mut Port, new: &[u8; SMP_DATA]) -> Result<Change, Status> {
    let (_, state) = halves(new.u8(32));
    let (phys, down_default) = halves(new.u8(33));
    let phys = phys_asked(phys)?;
    let down_default = match down_default {
        0 => port.down_default,
        1 => Phys::Sleep,
        2 => Phys::Polling,
        _ => return Err(Status::BadField),
    };
    let link = match (state, phys) {
        // Both may be asked at once: first down, then what becomes of the end.
        (0 | 1, Some(phys)) => Link::Drop(phys),
        (1, None) => Link::Drop(down_default),
        (0, None) => Link::Leave,
        (_, Some(_)) => return Err(Status::BadField),
        (_, None) => Link::Leave,
    };
    let to = match (state, port.state) {
        (0 | 1, now) => now,
        (3, State::Init | State::Armed) => State::Armed,
        // A manager that takes over says again what is so already.
        (4, State::Armed | State::Active) => State::Active,
        (3, State::Active) => State::Active,
        _ => return Err(Status::BadField),
    };
    let enabled = |asked: u8, now: u8, all: u8| match asked {
        0 => Ok(now),
        0xf | 0xff => Ok(all),
        some if some & !all == 0 => Ok(some),
        _ => Err(Status::BadField),
    };
    let width_enabled = enabled(new.u8(29), port.width_enabled, WIDTHS)?;
    let speed_enabled = enabled(new.u8(35) & 0xf, port.speed_enabled, SPEEDS)?;
    let speed_ext_enabled = match new.u8(63) & 0x1f {
        0x1f => SPEEDS_EXT,
        0x1e => 0,
        other => enabled(other, port.speed_ext_enabled, SPEEDS_EXT)?,
    };
    let (mtu, sm_sl) = halves(new.u8(36));
    if mtu == 0 || mtu > MTU_CAP {
        return Err(Status::BadField);
    }
    let (lanes, filters) = halves(new.u8(43));
    if lanes > LANES_CAP {
        return Err(Status::BadField);
    }
    let mut events = Events::NONE;
    if port.role.is_end() {
        set_end(port, new, sm_sl, &mut events)?;
    }
    port.width_enabled = width_enabled;
    port.speed_enabled = speed_enabled;
    port.speed_ext_enabled = speed_ext_enabled;
    port.mtu = mtu;
    port.down_default = down_default;
    port.lanes = if lanes == 0 { port.lanes } else { lanes };
    port.filters = filters;
    port.stall = new.u8(42);
    port.high_limit = new.u8(38);
    port.thresholds = new.u8(53);
    for (i, count) in port.violations.iter_mut().enumerate() {
        // They can only be cleared (IBA table 145).
        if new.u16(44 + 2 * i) == 0 {
            *count = 0;
        }
    }
    events.add_if(
        to == State::Active && port.state != State::Active,
        Events::ACTIVE,
    );
    port.state = to;
    Ok(Change { events, link })
}

/// The part of [`set`] that only ports with LIDs have.
fn set_end(
    port: &mut Port,
    new: &[u8; SMP_DATA],
    sm_sl: u8,
    events: &mut Events,
) -> Result<(), Status> {
    let (lid, lmc) = (new.u16(16), new.u8(34) & 7);
    let sm_lid = new.u16(18);
    let bad = |lid: u16| lid == 0 || lid >= FIRST_MULTICAST;
    // A switch has one LID only, and none of these is asked for when the link goes down.
    if bad(lid) || bad(sm_lid) || (port.role == Role::SwitchEnd && lmc != 0) {
        return Err(Status::BadField);
    }
    let prefix = new.u64(8);
    events.add_if(prefix != port.prefix, Events::GIDS);
    events.add_if(lid != port.lid || lmc != port.lmc, Events::LID);
    events.add_if(
        sm_lid != port.sm_lid || sm_sl != port.sm_sl,
        Events::MANAGER,
    );
    events.add_if(new.u8(51) & 0x80 != 0, Events::REREGISTER);
    port.mkey = new.u64(0);
    port.mkey_lease = new.u16(26);
    port.mkey_protect = new.u8(34) >> 6;
    port.prefix = prefix;
    port.lid = lid;
    port.lmc = lmc;
    port.sm_lid = sm_lid;
    port.sm_sl = sm_sl;
    port.subnet_timeout = new.u8(51) & 0x7f;
    Ok(())
}

/// The state that a cable's end is told to take, if any.
fn phys_asked(code: u8) -> Result<Option<Phys>, Status> {
    match code {
        0 => Ok(None),
        1 => Ok(Some(Phys::Sleep)),
        2 => Ok(Some(Phys::Polling)),
        3 => Ok(Some(Phys::Disabled)),
        _ => Err(Status::BadField),
    }
}
