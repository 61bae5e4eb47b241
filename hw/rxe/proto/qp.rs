// SPDX-License-Identifier: GPL-2.0

//! The states of a queue pair, and what a change does to its two halves.
//!
//! Which attributes a change needs, and which changes a transport has at all, is the
//! core's business (`ib_modify_qp_is_ok`). Here is only what happens. The host holds
//! both halves when it applies a [`Change`], send side last, then polls both.
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
    /// New, or as new.
    Reset = 0,
    /// Receive requests may be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// The send queue drains or is drained.
    Sqd = 4,
    /// The send queue failed (UC, UD); receiving goes on.
    Sqe = 5,
    /// All requests are flushed.
    Err = 6,
}

impl QpState {
    /// From the number of `enum ib_qp_state`.
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

    /// The number of `enum ib_qp_state`.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// What a change of state does to the send side.
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

/// What a change of state does to the receive side.
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

/// What a change of state does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// To the send side.
    pub send: SendChange,
    /// To the receive side.
    pub recv: RecvChange,
}

/// There is no way from the one state to the other, or not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoWay;

/// What the change from `old` to `new` does. `draining` says that a drain is not
/// complete ([`SendSide::is_draining`]), which must end first.
///
/// # Errors
///
/// [`NoWay`] if no rule leads there.
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

        // Only the host leads here, when a datagram or UC send side failed by itself.
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
    /// Applies this to the receive side. The host polls it next.
    pub fn apply_recv<R: DerefMut<Target = [Resource]>>(self, side: &mut RecvSide<R>) {
        match self.recv {
            RecvChange::Keep => {}
            RecvChange::Reset => side.reset(),
            RecvChange::Enable => side.enable(),
            RecvChange::Flush => side.set_error(),
        }
    }

    /// Applies this to the send side. The host polls it next.
    ///
    /// # Errors
    ///
    /// [`NoWay`] if it still flushes and must be polled before it can be enabled.
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
