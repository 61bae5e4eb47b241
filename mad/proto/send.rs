// SPDX-License-Identifier: GPL-2.0

//! The life of one send.
//!
//! ```text
//!            post                       completed, a response is due
//!   Idle ------------> Sent ---------------------------> Waiting --+
//!    ^ \                | ^                               |  |     | response: Over
//!    |  \ post, too     | | room, or                      |  |     | cancel: Cancelled
//!    |   \ many are out | | expired, again                |  |
//!    |    +--> Queued <-----------------------------------+  |
//!    |          (also: expired, others are queued)           |
//!    |                  |
//!    |                  +-- response came first ----> Answered -- completed: Idle
//!    |                  +-- cancel -----------------> Revoked --- completed: Idle
//!    +-- Cancelled (at once, by the worker), expired for the last time,
//!        Over (once the response was handed over)
//! ```
//!
//! An agent that waits for too many responses at a time would find its answers dropped,
//! for want of posted receives: so [`Flow`] limits those of a few classes, and more are
//! queued.
//!
//! Times are in ticks of the caller's clock, which may wrap.

use super::rmpp::Acked;
use super::rmpp::Segment;
use super::rmpp::Sender;

/// A point in time, or a time, in ticks.
pub type Ticks = u64;

/// Whether `a` is later than `b`.
pub const fn is_after(a: Ticks, b: Ticks) -> bool {
    // The sign of the difference says so, also when the clock wraps.
    (b.wrapping_sub(a) as i64) < 0
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// With who made it.
    Idle,
    /// In the backlog.
    Queued,
    /// With the queue pair.
    Sent,
    /// With the queue pair, and over: it ends so when it is completed.
    Answered(End),
    /// With the queue pair, and cancelled.
    Revoked,
    /// Not with the queue pair, and over: it ends so when what came for it was handed over.
    Over(End),
    /// Waiting for a response, or an acknowledgement.
    Waiting,
    /// Cancelled: to be given back by the worker.
    Cancelled,
}

/// In which of an agent's lists a send is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// None.
    None,
    /// Those that wait until others have their response.
    Backlog,
    /// Those with the queue pair, and those whose answer is being handed over.
    Sent,
    /// Those that wait, by deadline.
    Waiting,
}

/// How a send ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As the queue pair completed it.
    AsCompleted,
    /// With success: what was due has come.
    Success,
    /// It was cancelled.
    Flushed,
    /// Nothing came in time.
    TimedOut,
    /// The other end aborted the transfer, for this reason.
    Aborted(u8),
    /// It could not be posted.
    Failed,
}

/// How many sends of an agent await their responses, and how many may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// 0 for any number.
    limit: u32,
    out: u32,
    /// The agent goes: none is given to the queue pair any more, nor waits.
    closed: bool,
}

impl Flow {
    /// With a limit; 0 for none.
    pub const fn with_limit(limit: u32) -> Self {
        Self {
            limit,
            out: 0,
            closed: false,
        }
    }

    /// The agent goes.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether the agent goes.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether one more may go out.
    pub const fn has_room(&self) -> bool {
        !self.closed && (self.limit == 0 || self.out < self.limit)
    }

    /// How many are out.
    pub const fn out(&self) -> u32 {
        self.out
    }
}

/// What was asked for when a send was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// How long a response is waited for; 0, if none is due.
    pub timeout: Ticks,
    /// How often it may be sent again.
    pub retries: u32,
    /// Whether [`Flow`] counts it.
    pub counted: bool,
}

/// What to do with a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is not done is lost"]
pub enum Do {
    /// Nothing.
    Nothing,
    /// Post it, as it is.
    Post,
    /// Post this segment of it.
    PostSegment(Segment),
    /// Give it back.
    Finish(End),
}

/// A send that is not idle was posted again, or its agent goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// How long a segment waits for an acknowledgement at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckTimeout(pub Ticks);

/// One send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    state: State,
    order: Order,
    /// How long a response is waited for once it was sent.
    patience: Ticks,
    /// When it expires; of sends that wait.
    deadline: Ticks,
    retries_left: u32,
    retries_made: u32,
    /// What came for it is being handed over.
    handing: bool,
    /// If it is of many segments.
    rmpp: Option<Sender>,
}

impl Send {
    /// One that is idle.
    pub const fn new(rmpp: Option<Sender>) -> Self {
        Self {
            state: State::Idle,
            order: Order {
                timeout: 0,
                retries: 0,
                counted: false,
            },
            patience: 0,
            deadline: 0,
            retries_left: 0,
            retries_made: 0,
            handing: false,
            rmpp,
        }
    }

    /// Where it is.
    pub const fn state(&self) -> State {
        self.state
    }

    /// In which list it is.
    pub const fn home(&self) -> Home {
        match self.state {
            State::Idle => Home::None,
            State::Queued => Home::Backlog,
            State::Sent | State::Answered(_) | State::Revoked | State::Over(_) => Home::Sent,
            State::Waiting | State::Cancelled => Home::Waiting,
        }
    }

    /// When it expires, if it waits.
    pub const fn deadline(&self) -> Ticks {
        self.deadline
    }

    /// How long a response is waited for; 0, if none is due any more.
    pub const fn patience(&self) -> Ticks {
        self.patience
    }

    /// How often it may be sent again, still and at most.
    pub const fn retries(&self) -> (u32, u32) {
        (self.retries_left, self.order.retries)
    }

    /// How often it was sent again.
    pub const fn retries_made(&self) -> u32 {
        self.retries_made
    }

    /// Whether [`Flow`] counts it.
    pub const fn is_counted(&self) -> bool {
        self.order.counted
    }

    /// Its transfer, if it is one.
    pub const fn rmpp(&self) -> Option<&Sender> {
        self.rmpp.as_ref()
    }

    /// Whether a response, or what belongs to its transfer, is for it.
    pub const fn awaits(&self) -> bool {
        match self.state {
            State::Waiting => true,
            // What was never sent has no answer.
            State::Queued => self.retries_made > 0,
            State::Sent => self.patience != 0,
            State::Idle
            | State::Answered(_)
            | State::Revoked
            | State::Over(_)
            | State::Cancelled => false,
        }
    }

    fn go(&mut self, to: State, flow: &mut Flow) {
        let is_out = |state| matches!(state, State::Sent | State::Waiting);
        if self.order.counted {
            match (is_out(self.state), is_out(to)) {
                (false, true) => flow.out = flow.out.saturating_add(1),
                (true, false) => flow.out = flow.out.saturating_sub(1),
                (true, true) | (false, false) => {}
            }
        }
        self.state = to;
    }

    /// Gives the next segment to the queue pair.
    fn segment(&mut self, most: AckTimeout, flow: &mut Flow) -> Option<Do> {
        let segment = self.rmpp.as_mut()?.next_segment()?;
        let timeout = self.order.timeout;
        self.patience = if timeout == 0 {
            most.0
        } else {
            timeout.min(most.0)
        };
        self.go(State::Sent, flow);
        Some(Do::PostSegment(segment))
    }

    fn submit(&mut self, most: AckTimeout, flow: &mut Flow) -> Do {
        if let Some(todo) = self.segment(most, flow) {
            return todo;
        }
        self.go(State::Sent, flow);
        Do::Post
    }

    /// It is posted. `queued`: there is a backlog. `window_end`: of a transfer.
    ///
    /// # Errors
    ///
    /// It is not idle, or the agent goes.
    pub fn post(
        &mut self,
        order: Order,
        queued: bool,
        window_end: u32,
        most: AckTimeout,
        flow: &mut Flow,
    ) -> Result<Do, Busy> {
        if self.state != State::Idle || flow.closed {
            return Err(Busy);
        }
        self.order = order;
        self.patience = order.timeout;
        self.retries_left = order.retries;
        self.retries_made = 0;
        self.handing = false;
        if let Some(rmpp) = &mut self.rmpp {
            rmpp.start(window_end);
        }
        if order.counted && flow.limit != 0 && (queued || !flow.has_room()) {
            self.go(State::Queued, flow);
            return Ok(Do::Nothing);
        }
        Ok(self.submit(most, flow))
    }

    /// It is the first of the backlog: sends it, if there is room.
    pub fn dequeue(&mut self, flow: &mut Flow) -> Do {
        if self.state != State::Queued || !flow.has_room() {
            return Do::Nothing;
        }
        self.go(State::Sent, flow);
        Do::Post
    }

    /// It could not be posted.
    pub fn not_posted(&mut self, flow: &mut Flow) {
        self.go(State::Idle, flow);
    }

    /// The queue pair is done with it.
    pub fn completed(&mut self, ok: bool, now: Ticks, most: AckTimeout, flow: &mut Flow) -> Do {
        let over = match self.state {
            State::Revoked => Some(End::Flushed),
            State::Answered(end) => Some(end),
            State::Sent if flow.closed => Some(End::Flushed),
            State::Sent => None,
            // It is not with the queue pair.
            State::Idle | State::Queued | State::Waiting | State::Cancelled | State::Over(_) => {
                return Do::Nothing;
            }
        };
        match over {
            Some(end) if self.handing => {
                self.go(State::Over(end), flow);
                return Do::Nothing;
            }
            Some(end) => {
                self.go(State::Idle, flow);
                return Do::Finish(end);
            }
            None => {}
        }
        if let (Some(rmpp), true) = (&self.rmpp, ok) {
            if rmpp.is_done() {
                self.patience = self.order.timeout;
            } else if rmpp.may_send() {
                if let Some(todo) = self.segment(most, flow) {
                    return todo;
                }
            }
        }
        if self.patience == 0 {
            self.go(State::Idle, flow);
            return Do::Finish(End::AsCompleted);
        }
        // Even one that failed: it may be sent again.
        self.wait(now, self.patience, flow);
        Do::Nothing
    }

    fn wait(&mut self, now: Ticks, time: Ticks, flow: &mut Flow) {
        self.deadline = now.wrapping_add(time);
        self.go(State::Waiting, flow);
    }

    /// What was due has come, or will not come any more. It [`awaits`](Self::awaits)
    /// that.
    pub fn end(&mut self, end: End, flow: &mut Flow) -> Do {
        self.patience = 0;
        match self.state {
            State::Waiting | State::Queued => {
                self.go(State::Idle, flow);
                Do::Finish(end)
            }
            State::Sent => {
                let end = match end {
                    End::Success => End::AsCompleted,
                    other => other,
                };
                self.go(State::Answered(end), flow);
                Do::Nothing
            }
            State::Idle
            | State::Answered(_)
            | State::Revoked
            | State::Over(_)
            | State::Cancelled => Do::Nothing,
        }
    }

    /// An answer has come, for which it [`awaits`](Self::awaits), and is handed over now. What
    /// is then to be done, [`handed`](Self::handed) says: it does not end before.
    pub fn answered(&mut self, flow: &mut Flow) {
        self.handing = true;
        if self.end(End::Success, flow) == Do::Finish(End::Success) {
            self.go(State::Over(End::Success), flow);
        }
    }

    /// The answer was handed over.
    pub fn handed(&mut self, flow: &mut Flow) -> Do {
        self.handing = false;
        match self.state {
            State::Over(end) => {
                self.go(State::Idle, flow);
                Do::Finish(end)
            }
            _ => Do::Nothing,
        }
    }

    /// Its time is changed; none, for cancelling it. False, if that is too late.
    pub fn modify(&mut self, timeout: Ticks, now: Ticks, flow: &mut Flow) -> bool {
        let cancel = timeout == 0;
        match self.state {
            State::Idle | State::Revoked | State::Over(_) | State::Cancelled => return false,
            State::Sent | State::Answered(_) if cancel => self.go(State::Revoked, flow),
            State::Waiting | State::Queued if cancel => {
                self.deadline = now;
                self.go(State::Cancelled, flow);
            }
            State::Waiting => self.wait(now, timeout, flow),
            State::Sent | State::Queued => self.patience = timeout,
            State::Answered(_) => {}
        }
        self.order.timeout = timeout;
        true
    }

    /// The agent goes. One that is not with the queue pair ends at once.
    pub fn abandon(&mut self, flow: &mut Flow) -> Do {
        match self.state {
            State::Sent | State::Answered(_) => {
                self.go(State::Revoked, flow);
                Do::Nothing
            }
            State::Waiting | State::Cancelled | State::Queued => {
                self.go(State::Idle, flow);
                Do::Finish(End::Flushed)
            }
            // What is being handed over ends after that.
            State::Idle | State::Revoked | State::Over(_) => Do::Nothing,
        }
    }

    /// Its deadline has come. `queued`: there is a backlog.
    pub fn expired(&mut self, queued: bool, most: AckTimeout, flow: &mut Flow) -> Do {
        match self.state {
            State::Cancelled => {
                self.go(State::Idle, flow);
                return Do::Finish(End::Flushed);
            }
            State::Waiting if flow.closed => {
                self.go(State::Idle, flow);
                return Do::Finish(End::Flushed);
            }
            State::Waiting => {}
            State::Idle
            | State::Queued
            | State::Sent
            | State::Answered(_)
            | State::Revoked
            | State::Over(_) => return Do::Nothing,
        }
        // A transfer that was received is not sent again: its answer does not come.
        let received = self.rmpp.as_ref().is_some_and(Sender::is_done);
        let Some(left) = self.retries_left.checked_sub(1).filter(|_| !received) else {
            self.go(State::Idle, flow);
            return Do::Finish(End::TimedOut);
        };
        self.retries_left = left;
        self.retries_made = self.retries_made.saturating_add(1);
        self.patience = self.order.timeout;
        if self.order.counted && queued {
            self.go(State::Queued, flow);
            return Do::Nothing;
        }
        if let Some(rmpp) = &mut self.rmpp {
            rmpp.rewind();
        }
        self.submit(most, flow)
    }

    /// Segments of its transfer were acknowledged. `Some(true)`: all of them, so that the
    /// other end may be told that an answer is welcome. `None`: it is no transfer under
    /// way, or the acknowledgement is wrong.
    pub fn acked(
        &mut self,
        segment: u32,
        window_end: u32,
        now: Ticks,
        most: AckTimeout,
        flow: &mut Flow,
    ) -> AckResult {
        let Some(rmpp) = self.rmpp.as_mut().filter(|_| !flow.closed) else {
            return AckResult::Nothing;
        };
        if rmpp.is_done() {
            return AckResult::Again;
        }
        match rmpp.ack(segment, window_end) {
            Acked::TooMuch => return AckResult::Wrong,
            Acked::Old => return AckResult::Nothing,
            Acked::All => {
                self.retries_left = self.order.retries;
                if self.order.timeout == 0 {
                    return AckResult::Do(self.end(End::Success, flow));
                }
                if self.state == State::Waiting {
                    self.wait(now, self.order.timeout, flow);
                }
                return AckResult::Again;
            }
            Acked::Some { new: true } => self.retries_left = self.order.retries,
            Acked::Some { new: false } => {}
        }
        if self.state == State::Waiting && self.rmpp.as_ref().is_some_and(Sender::may_send) {
            if let Some(todo) = self.segment(most, flow) {
                return AckResult::Do(todo);
            }
        }
        AckResult::Nothing
    }
}

/// What an acknowledgement leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is not done is lost"]
pub enum AckResult {
    /// Nothing.
    Nothing,
    /// It acknowledges what cannot have come: abort the transfer.
    Wrong,
    /// All has come, now or before: say that an answer is welcome.
    Again,
    /// This.
    Do(Do),
}
