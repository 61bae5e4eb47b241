// SPDX-License-Identifier: GPL-2.0

//! Requests to find where an address is: when each is tried, what ends it, and who hears of it.
//!
//! A request is tried by who makes it, and then by a worker: at the answer to what was asked
//! of the network, and at its deadline for the last time. Its asker is told once, always by
//! the worker, unless the request is cancelled before.
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
//! What happens while it is tried is not lost: news have it tried again, an answer counts.
//! Time is in milliseconds since the request was made. The caller keeps the entries, in any
//! order, under one lock.

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<E> {
    /// The address is known.
    Found,
    /// Somebody was asked, and has not answered yet.
    Asked,
    /// It cannot be found.
    Failed(E),
}

/// What the asker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<E, A> {
    /// The address is known; by an answer of user space, if there is one.
    Found(Option<A>),
    /// Nobody answered in time.
    TimedOut,
    /// It cannot be found.
    Failed(E),
}

/// What a worker does in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<A> {
    /// Try, and say what it came to by [`Life::tried`].
    Try,
    /// Tell the asker that it is found, then say so by [`Life::told`].
    Tell(Option<A>),
    /// Nothing: it is over.
    Nothing,
}

/// What comes after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<E, A> {
    /// Tell the asker, then [`Life::told`].
    Tell(Verdict<E, A>),
    /// Another turn, after so many milliseconds at the latest.
    Wait(u64),
    /// It was cancelled.
    Nothing,
}

/// What became of a request that was to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is over. The worker may be at it, for a last time; who cancels waits for it.
    Wait,
    /// It is over. Its asker may be at its own attempt, in another task, of which it learns then;
    /// who cancels waits for that.
    Starting,
    /// It is over as soon as this worker's own call of the asker returns, from which it was
    /// cancelled.
    ByItself,
}

/// Who runs: the number of a task.
pub type Task = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Waiting,
    Trying,
    Telling(Task),
    Over,
}

/// The life of a request. `A` is an answer of user space.
#[derive(Clone, Copy, Debug)]
pub struct Life<A> {
    phase: Phase,
    deadline: u64,
    /// There is nothing left to be tried.
    found: bool,
    answer: Option<A>,
    /// There was news while it was tried.
    news: bool,
}

impl<A: Copy> Life<A> {
    /// A request that its asker is about to try, with so many milliseconds of patience.
    pub const fn new(patience: u64) -> Self {
        Self {
            phase: Phase::Starting,
            deadline: patience,
            found: false,
            answer: None,
            news: false,
        }
    }

    /// After the asker's own attempt. What it returns is how soon the worker has its turn;
    /// none of an error, which the asker gets at once.
    ///
    /// # Errors
    ///
    /// The attempt's; the request is over.
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

    /// The worker's turn.
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

    /// What the worker's attempt came to, and when.
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

    /// The asker has been told.
    pub fn told(&mut self) {
        self.phase = Phase::Over;
    }

    /// Some neighbour has become known, maybe this one. Whether the worker is to have its
    /// turn at once.
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

    /// User space has answered. Whether the request still waited for that; and whether the
    /// worker is to have its turn at once.
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

    /// Ends the request, of which the asker hears no more.
    pub fn cancel(&mut self, by: Task) -> Cancelled {
        match core::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Starting => Cancelled::Starting,
            // Its asker is told just now, and this very task is who tells.
            Phase::Telling(worker) if worker == by => Cancelled::ByItself,
            Phase::Waiting | Phase::Trying | Phase::Telling(_) | Phase::Over => Cancelled::Wait,
        }
    }
}

/// A request in a table.
#[derive(Debug)]
pub struct Entry<A, H> {
    /// Its number, which no other has.
    pub id: u64,
    /// What its asker calls it.
    pub key: usize,
    /// The worker's handle.
    pub handle: H,
    /// Its life.
    pub life: Life<A>,
}

/// The place of a request in a table, by its number.
pub fn find<A, H>(entries: &[Entry<A, H>], id: u64) -> Option<usize> {
    entries.iter().position(|entry| entry.id == id)
}

/// The request that user space answers: it knows but 32 bits of the number.
pub fn find_answered<A, H>(entries: &mut [Entry<A, H>], seq: u32) -> Option<&mut Entry<A, H>> {
    // CAST: the low half.
    entries.iter_mut().find(|entry| entry.id as u32 == seq)
}

/// Cancels the first request with this key: its place, and what is to be done.
/// The caller takes it out of the table, and asks again until there is none.
pub fn cancel<A: Copy, H>(
    entries: &mut [Entry<A, H>],
    key: usize,
    by: Task,
) -> Option<(usize, Cancelled)> {
    entries
        .iter_mut()
        .enumerate()
        .find(|(_, entry)| entry.key == key)
        .map(|(at, entry)| (at, entry.life.cancel(by)))
}
