// SPDX-License-Identifier: GPL-2.0

//! Address resolution requests: when each is tried, how it ends, and who is notified.
//!
//! A request is tried by the requester first, and then by a worker: when the network has answered a
//! query, and at its deadline for the last time. The requester is notified once, always by the
//! worker, unless the request is cancelled before.
//!
//! ```text
//!             asked, found                turn                    told
//!   starting -------------> waiting <-------------> trying   telling -----> over
//!       | failed               |      asked again     |         ^            ^
//!       v                      +----- cancelled ----- | --------|------------+
//!     over                     |                      +---------+            |
//!                              +-----------> over <---- cancelled -----------+
//! ```
//!
//! What happens during an attempt is not lost: a neighbour update causes another attempt, an answer
//! of user space counts. Time is in milliseconds since the request was made. [`table`] keeps the
//! requests, under one lock.

pub mod table;

/// Result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<E> {
    /// The address is known.
    Found,
    /// A query was sent, and is not answered yet.
    Asked,
    /// The address cannot be resolved.
    Failed(E),
}

/// Result reported to the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<E, A> {
    /// The address is known; from an answer of user space, if there is one.
    Found(Option<A>),
    /// No answer arrived in time.
    TimedOut,
    /// The address cannot be resolved.
    Failed(E),
}

/// What a worker does in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<A> {
    /// Try, and report the result to [`Life::tried`].
    Try,
    /// Notify the requester that the address is known, then call [`Life::told`].
    Tell(Option<A>),
    /// Nothing: the request is over.
    Nothing,
}

/// Next step after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<E, A> {
    /// Notify the requester, then call [`Life::told`].
    Tell(Verdict<E, A>),
    /// Take another turn, after this many milliseconds at the latest.
    Wait(u64),
    /// Nothing: the request was cancelled.
    Nothing,
}

/// State of a request that is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is over. The worker may still be working on it, for the last time; the canceller waits
    /// for the worker.
    Wait,
    /// It is over. The requester may be in its own attempt, in another task, which notices the
    /// cancellation; the canceller waits for that attempt.
    Starting,
    /// It is over as soon as the worker's callback to the requester returns; the request was
    /// cancelled from that callback.
    ByItself,
}

/// Number of the running task.
pub type Task = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Waiting,
    Trying,
    Telling(Task),
    Over,
}

/// State of a request. `A` is an answer of user space.
#[derive(Clone, Copy, Debug)]
pub struct Life<A> {
    phase: Phase,
    deadline: u64,
    /// The result is known; no further attempt is needed.
    found: bool,
    answer: Option<A>,
    /// A neighbour was updated during the attempt.
    news: bool,
}

impl<A: Copy> Life<A> {
    /// A request that the requester is about to try, with a deadline of `patience` milliseconds.
    pub const fn new(patience: u64) -> Self {
        Self {
            phase: Phase::Starting,
            deadline: patience,
            found: false,
            answer: None,
            news: false,
        }
    }

    /// Records the result of the requester's own attempt. Returns after how many milliseconds the
    /// worker takes its turn. There is no such turn after an error, which the requester gets at
    /// once.
    ///
    /// # Errors
    ///
    /// The error of the attempt; the request is over.
    pub fn started<E>(&mut self, outcome: Outcome<E>) -> Result<u64, E> {
        self.phase = Phase::Waiting;
        match outcome {
            Outcome::Found => self.found = true,
            Outcome::Asked => {}
            Outcome::Failed(error) if self.found => drop(error),
            Outcome::Failed(error) => {
                self.phase = Phase::Over;
                return Err(error);
            }
        }
        let at_once = self.found || core::mem::take(&mut self.news);
        Ok(if at_once { 0 } else { self.deadline })
    }

    /// Starts a turn of the worker.
    pub fn turn(&mut self, worker: Task) -> Turn<A> {
        match self.phase {
            Phase::Waiting if self.found => {
                self.phase = Phase::Telling(worker);
                Turn::Tell(self.answer)
            }
            Phase::Waiting => {
                self.phase = Phase::Trying;
                self.news = false;
                Turn::Try
            }
            Phase::Starting | Phase::Trying | Phase::Telling(_) | Phase::Over => Turn::Nothing,
        }
    }

    /// Records the result of the worker's attempt, at time `now`.
    pub fn tried<E>(&mut self, outcome: Outcome<E>, now: u64, worker: Task) -> Next<E, A> {
        if self.phase != Phase::Trying {
            return Next::Nothing;
        }
        let late = now >= self.deadline;
        let verdict = match outcome {
            _ if self.found => Verdict::Found(self.answer),
            Outcome::Found => Verdict::Found(None),
            Outcome::Asked | Outcome::Failed(_) if late => Verdict::TimedOut,
            Outcome::Failed(error) => Verdict::Failed(error),
            Outcome::Asked => {
                self.phase = Phase::Waiting;
                let left = self.deadline.saturating_sub(now);
                return Next::Wait(if core::mem::take(&mut self.news) {
                    0
                } else {
                    left
                });
            }
        };
        self.phase = Phase::Telling(worker);
        Next::Tell(verdict)
    }

    /// Records that the requester was notified.
    pub fn told(&mut self) {
        self.phase = Phase::Over;
    }

    /// Records that the neighbour became known. Returns whether the worker must take its turn
    /// at once.
    pub fn wake(&mut self) -> bool {
        match self.phase {
            Phase::Waiting => true,
            Phase::Starting | Phase::Trying => {
                self.news = true;
                false
            }
            Phase::Telling(_) | Phase::Over => false,
        }
    }

    /// Records an answer of user space. Returns `None` if the request no longer waits for one, else
    /// whether the worker must take its turn at once.
    pub fn answer(&mut self, answer: A) -> Option<bool> {
        let waiting = match self.phase {
            Phase::Waiting => true,
            Phase::Starting | Phase::Trying => false,
            Phase::Telling(_) | Phase::Over => return None,
        };
        self.found = true;
        self.answer = Some(answer);
        Some(waiting)
    }

    /// Cancels the request: the requester is not notified any more.
    pub fn cancel(&mut self, by: Task) -> Cancelled {
        match core::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Starting => Cancelled::Starting,
            // The requester is being notified, by this very task.
            Phase::Telling(worker) if worker == by => Cancelled::ByItself,
            Phase::Waiting | Phase::Trying | Phase::Telling(_) | Phase::Over => Cancelled::Wait,
        }
    }
}
