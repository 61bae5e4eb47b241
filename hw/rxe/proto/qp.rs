// SPDX-License-Identifier: GPL-2.0

//! The states of a queue pair, and the effect of a transition on its two halves.
//!
//! The core checks which attributes a transition needs, and which transitions a transport supports
//! (`ib_modify_qp_is_ok`). This file implements their effects. The host holds both halves when it
//! applies a [`Change`], send side last, and then polls both.
//!
//! IBTA 10.3.1 and figure "QP/EE context state diagram"; `enum ib_qp_state`.

use core::ops::DerefMut;

use super::host::SendHost;
use super::recv::RecvSide;
use super::recv::Resource;
use super::send::SendSide;
use super::send::Slots;

/// The state of a queue pair; the numbers are those of `enum ib_qp_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum QpState {
    /// New or reset.
    Reset = 0,
    /// Receive requests may be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// The send queue is draining or drained.
    Sqd = 4,
    /// The send queue failed (UC, UD); receiving continues.
    Sqe = 5,
    /// All requests are flushed.
    Err = 6,
}

impl QpState {
    /// Converts a number of `enum ib_qp_state`.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(QpState::Reset),
            1 => Some(QpState::Init),
            2 => Some(QpState::Rtr),
            3 => Some(QpState::Rts),
            4 => Some(QpState::Sqd),
            5 => Some(QpState::Sqe),
            6 => Some(QpState::Err),
            _ => None,
        }
    }

    /// Returns the number of `enum ib_qp_state`.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Effect of a transition on the send side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendChange {
    /// Nothing.
    Keep,
    /// [`SendSide::reset`].
    Reset,
    /// [`SendSide::enable`].
    Enable,
    /// [`SendSide::drain`].
    Drain,
    /// [`SendSide::set_error`].
    Flush,
}

/// Effect of a transition on the receive side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvChange {
    /// Nothing.
    Keep,
    /// [`RecvSide::reset`].
    Reset,
    /// [`RecvSide::enable`].
    Enable,
    /// [`RecvSide::set_error`].
    Flush,
}

/// Effect of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Effect on the send side.
    pub send: SendChange,
    /// Effect on the receive side.
    pub recv: RecvChange,
}

/// The transition is not possible, or not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoWay;

/// Returns the effect of the transition from `old` to `new`. `draining`: a drain is in progress
/// ([`SendSide::is_draining`]) and must complete first.
///
/// # Errors
///
/// [`NoWay`] if there is no such transition.
pub const fn transition(old: QpState, new: QpState, draining: bool) -> Result<Change, NoWay> {
    use QpState::*;

    let (send, recv) = match (old, new) {
        (_, Reset) => (SendChange::Reset, RecvChange::Reset),
        (_, Err) => (SendChange::Flush, RecvChange::Flush),

        (Reset | Init, Init) => (SendChange::Keep, RecvChange::Keep),
        (Init, Rtr) => (SendChange::Keep, RecvChange::Enable),
        (Rtr, Rts) => (SendChange::Enable, RecvChange::Keep),
        (Rts, Rts) => (SendChange::Keep, RecvChange::Keep),

        (Rts, Sqd) => (SendChange::Drain, RecvChange::Keep),
        (Sqd, Sqd | Rts) if draining => return Result::Err(NoWay),
        (Sqd, Sqd) => (SendChange::Keep, RecvChange::Keep),
        (Sqd, Rts) => (SendChange::Enable, RecvChange::Keep),

        // Only the host makes this transition, after the send side of a UC or datagram QP failed.
        (Rts | Sqd, Sqe) => (SendChange::Flush, RecvChange::Keep),
        (Sqe, Rts) => (SendChange::Enable, RecvChange::Keep),

        (Reset, Rtr | Rts | Sqd | Sqe)
        | (Init, Rts | Sqd | Sqe)
        | (Rtr, Init | Rtr | Sqd | Sqe)
        | (Rts, Init | Rtr)
        | (Sqd, Init | Rtr)
        | (Sqe, Init | Rtr | Sqd | Sqe)
        | (Err, Init | Rtr | Rts | Sqd | Sqe) => return Result::Err(NoWay),
    };
    Ok(Change { send, recv })
}

impl Change {
    /// Applies the change to the receive side. The host polls it next.
    pub fn apply_recv<R: DerefMut<Target = [Resource]>>(self, side: &mut RecvSide<R>) {
        match self.recv {
            RecvChange::Keep => {}
            RecvChange::Reset => side.reset(),
            RecvChange::Enable => side.enable(),
            RecvChange::Flush => side.set_error(),
        }
    }

    /// Applies the change to the send side. The host polls it next.
    ///
    /// # Errors
    ///
    /// [`NoWay`] if it is still flushing; the host must poll it before it can be enabled.
    pub fn apply_send<S: Slots>(
        self,
        side: &mut SendSide<S>,
        host: &mut impl SendHost,
    ) -> Result<(), NoWay> {
        match self.send {
            SendChange::Keep => {}
            SendChange::Reset => side.reset(),
            SendChange::Enable if side.enable() => {}
            SendChange::Enable => return Err(NoWay),
            SendChange::Drain => side.drain(host),
            SendChange::Flush => side.set_error(),
        }
        Ok(())
    }
}
