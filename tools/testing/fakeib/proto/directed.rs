// SPDX-License-Identifier: GPL-2.0

//! Datagrams that carry their path, as a switch handles them (IBA 14.2.2).
//!
//! The path is a list of ports to leave by, filled in from 1. The pointer is the number of
//! the hop that comes next. Adapters are not here: the core does their part.

use super::fields::Fields;
use super::mad;
use super::mad::at;
use super::mad::Mad;

/// What a switch does with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends it on by this port.
    Out(u8),
    /// Sends it on to this LID: the directed part of its path is over.
    Lid(u16),
    /// Hands it to its own agent.
    Here,
    /// Drops it.
    Drop,
}

/// Handles a datagram that came in by port `via`, and moves its pointer.
pub fn arrive(mad: &mut Mad, via: u8) -> Step {
    let (pointer, count) = (mad.u8(at::HOP_POINTER), mad.u8(at::HOP_COUNT));
    if count > mad::MAX_HOPS {
        return Step::Drop;
    }
    if mad::is_returning(mad) {
        // On the way back the agent of each switch takes one step.
        return back(mad);
    }
    match pointer {
        // It came by LID to here, where the directed part begins.
        0 if count != 0 => {
            mad.put_u8(at::HOP_POINTER, 1);
            Step::Out(hop(mad, at::INITIAL_PATH, 1))
        }
        p if p != 0 && p < count => {
            mad.put_u8(at::RETURN_PATH + usize::from(p), via);
            mad.put_u8(at::HOP_POINTER, p + 1);
            Step::Out(hop(mad, at::INITIAL_PATH, p + 1))
        }
        p if p == count => {
            if count != 0 {
                mad.put_u8(at::RETURN_PATH + usize::from(p), via);
            }
            mad.put_u8(at::HOP_POINTER, p + 1);
            match mad.u16(at::DR_DLID) {
                mad::PERMISSIVE => Step::Here,
                lid => Step::Lid(lid),
            }
        }
        // It came by LID to here, where it ends.
        p if p == count + 1 => Step::Here,
        _ => Step::Drop,
    }
}

/// Takes the step back of a datagram that is on its way back, also the first one of an answer
/// that was made here.
pub fn back(mad: &mut Mad) -> Step {
    let (pointer, count) = (mad.u8(at::HOP_POINTER), mad.u8(at::HOP_COUNT));
    match pointer {
        p if p > 1 && p <= count.saturating_add(1) && count != 0 => {
            mad.put_u8(at::HOP_POINTER, p - 1);
            Step::Out(hop(mad, at::RETURN_PATH, p - 1))
        }
        1 => {
            mad.put_u8(at::HOP_POINTER, 0);
            match mad.u16(at::DR_SLID) {
                // It was made here, which nothing on this switch does.
                mad::PERMISSIVE => Step::Drop,
                lid => Step::Lid(lid),
            }
        }
        _ => Step::Drop,
    }
}

fn hop(mad: &Mad, path: usize, number: u8) -> u8 {
    mad.u8(path + usize::from(number))
}
