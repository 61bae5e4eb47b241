// SPDX-License-Identifier: GPL-2.0

//! Which attributes a state change of a queue pair requires, and which it permits.
//!
//! The rules are data: [`CHANGES`] says which states follow which, and each row of [`RULES`] adds
//! attributes to a change, for a set of transport types. What a change requires or permits is the
//! union of the matching rows, so that a rule common to several types is written once ("the
//! responder of a reliable transport has an RNR timer"). A queue pair is modified a few times in
//! its life: scanning some thirty rows is cheap, and nothing is precomputed.
//!
//! The rules are those of the
//! InfiniBand Architecture Specification, volume 1, 11.2.5.2 (tables of the Modify
//! Queue Pair verb), as the exported `ib_modify_qp_is_ok` of the kernel reads them;
//! `rdma_kunit_core` compares the two over every type and every pair of states.
//! Known differences from the table in the specification, which we share with the
//! peer: a queue pair in RESET cannot be moved to ERR, nor one in SQE to SQE.

pub use super::qp::Attrs;
pub use super::qp::QpState;
pub use super::qp::QpType;

/// For each state, by number, the set of states that may follow it.
const CHANGES: [u8; 7] = {
    use self::QpState as S;
    // Any state but RESET can go to RESET or ERR.
    let ends = S::Reset.bit() | S::Err.bit();
    [
        S::Reset.bit() | S::Init.bit(),
        ends | S::Init.bit() | S::Rtr.bit(),
        ends | S::Rts.bit(),
        ends | S::Rts.bit() | S::Sqd.bit(),
        ends | S::Rts.bit() | S::Sqd.bit(),
        ends | S::Rts.bit(),
        ends,
    ]
};

/// A set of [`QpType`]s.
#[derive(Clone, Copy)]
struct Types(u16);

impl Types {
    const fn of(types: &[QpType]) -> Types {
        let mut bits = 0;
        let mut rest = types;
        while let [first, tail @ ..] = rest {
            bits |= first.bit();
            rest = tail;
        }
        Types(bits)
    }

    const fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    const fn has(self, qp_type: QpType) -> bool {
        self.0 & qp_type.bit() != 0
    }
}

const UC: Types = Types::of(&[QpType::Uc]);
const UD: Types = Types::of(&[QpType::Ud]);
const RAW: Types = Types::of(&[QpType::RawPacket]);
/// Accept datagrams from any sender that knows the Q_Key.
const DATAGRAM: Types = Types::of(&[QpType::Smi, QpType::Gsi, QpType::Ud]);
/// Their requests are acknowledged.
const REQUESTER: Types = Types::of(&[QpType::Rc, QpType::XrcIni]);
/// They acknowledge requests.
const RESPONDER: Types = Types::of(&[QpType::Rc, QpType::XrcTgt]);
const RELIABLE: Types = REQUESTER.or(RESPONDER);
/// Connected to one peer.
const CONNECTED: Types = RELIABLE.or(UC);
const IBTA: Types = DATAGRAM.or(CONNECTED);

/// Whether the attributes of a rule are required or optional.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

/// One rule: a change from a state in `from` to one in `to` takes `attrs`, for these types.
struct Rule {
    from: u8,
    to: u8,
    need: Need,
    types: Types,
    attrs: Attrs,
}

const fn rule(from: u8, to: u8, need: Need, types: Types, attrs: Attrs) -> Rule {
    Rule {
        from,
        to,
        need,
        types,
        attrs,
    }
}

const RULES: &[Rule] = {
    use self::Attrs as A;
    use self::Need::Optional;
    use self::Need::Required;
    const RESET: u8 = QpState::Reset.bit();
    const INIT: u8 = QpState::Init.bit();
    const RTR: u8 = QpState::Rtr.bit();
    const RTS: u8 = QpState::Rts.bit();
    const SQD: u8 = QpState::Sqd.bit();
    const SQE: u8 = QpState::Sqe.bit();
    // Three states lead to RTS with the same optional attributes.
    const TO_SEND: u8 = RTR | RTS | SQD;

    &[
        rule(RESET, INIT, Required, IBTA, A::PKEY_INDEX),
        // QP 0 and QP 1 are created for a port.
        rule(RESET, INIT, Required, CONNECTED.or(UD).or(RAW), A::PORT),
        rule(RESET, INIT, Required, DATAGRAM, A::QKEY),
        rule(RESET, INIT, Required, CONNECTED, A::ACCESS_FLAGS),
        //
        rule(INIT, INIT, Optional, IBTA, A::PKEY_INDEX),
        rule(INIT, INIT, Optional, CONNECTED.or(UD), A::PORT),
        rule(INIT, INIT, Optional, DATAGRAM, A::QKEY),
        rule(INIT, INIT, Optional, CONNECTED, A::ACCESS_FLAGS),
        //
        rule(
            INIT,
            RTR,
            Required,
            CONNECTED,
            A::AV.and(A::PATH_MTU).and(A::DEST_QPN).and(A::RQ_PSN),
        ),
        rule(
            INIT,
            RTR,
            Required,
            RESPONDER,
            A::MAX_DEST_RD_ATOMIC.and(A::MIN_RNR_TIMER),
        ),
        rule(INIT, RTR, Optional, IBTA, A::PKEY_INDEX),
        rule(INIT, RTR, Optional, DATAGRAM, A::QKEY),
        rule(
            INIT,
            RTR,
            Optional,
            CONNECTED,
            A::ALT_PATH.and(A::ACCESS_FLAGS),
        ),
        //
        rule(RTR, RTS, Required, IBTA, A::SQ_PSN),
        rule(RTR, RTS, Required, RELIABLE, A::TIMEOUT),
        rule(
            RTR,
            RTS,
            Required,
            REQUESTER,
            A::RETRY_CNT.and(A::RNR_RETRY).and(A::MAX_QP_RD_ATOMIC),
        ),
        rule(TO_SEND, RTS, Optional, IBTA, A::CUR_STATE),
        rule(TO_SEND, RTS, Optional, DATAGRAM, A::QKEY),
        rule(
            TO_SEND,
            RTS,
            Optional,
            CONNECTED,
            A::ALT_PATH.and(A::ACCESS_FLAGS).and(A::PATH_MIG_STATE),
        ),
        rule(TO_SEND, RTS, Optional, RESPONDER, A::MIN_RNR_TIMER),
        //
        rule(RTS, SQD, Optional, IBTA, A::EN_SQD_ASYNC_NOTIFY),
        //
        rule(SQD, SQD, Optional, IBTA, A::PKEY_INDEX),
        rule(SQD, SQD, Optional, DATAGRAM, A::QKEY),
        rule(
            SQD,
            SQD,
            Optional,
            CONNECTED,
            A::AV
                .and(A::ALT_PATH)
                .and(A::ACCESS_FLAGS)
                .and(A::PATH_MIG_STATE),
        ),
        rule(SQD, SQD, Optional, RELIABLE, A::PORT.and(A::TIMEOUT)),
        rule(
            SQD,
            SQD,
            Optional,
            REQUESTER,
            A::RETRY_CNT.and(A::RNR_RETRY).and(A::MAX_QP_RD_ATOMIC),
        ),
        rule(
            SQD,
            SQD,
            Optional,
            RESPONDER,
            A::MAX_DEST_RD_ATOMIC.and(A::MIN_RNR_TIMER),
        ),
        // Reliable transports have no SQE: an error moves them to ERR.
        rule(SQE, RTS, Optional, DATAGRAM.or(UC), A::CUR_STATE),
        rule(SQE, RTS, Optional, DATAGRAM, A::QKEY),
        rule(SQE, RTS, Optional, UC, A::ACCESS_FLAGS),
    ]
};

/// Always allowed: the new state itself, and the rate limit, which only some devices support and
/// check themselves.
const ALWAYS: Attrs = Attrs::STATE.and(Attrs::RATE_LIMIT);

/// Attributes that a change takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// Must all be given.
    pub required: Attrs,
    /// May be given in addition.
    pub optional: Attrs,
}

/// Why a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `CUR_STATE` is given in a state that does not permit it.
    Claim,
    /// The new state never follows the current one.
    NoSuchChange,
    /// These attributes are missing.
    Missing(Attrs),
    /// These attributes are not permitted in this change.
    NotAllowed(Attrs),
}

/// Returns whether state `to` may follow `from`.
pub fn follows(from: QpState, to: QpState) -> bool {
    CHANGES
        .get(usize::from(from as u8))
        .is_some_and(|next| next & to.bit() != 0)
}

/// Returns the attributes of a change for this type: none, if there is no such change.
pub fn takes(from: QpState, to: QpState, qp_type: QpType) -> Takes {
    let fits = |rule: &&Rule| {
        rule.from & from.bit() != 0 && rule.to & to.bit() != 0 && rule.types.has(qp_type)
    };
    RULES
        .iter()
        .filter(fits)
        .fold(Takes::default(), |sum, rule| match rule.need {
            Need::Required => Takes {
                required: sum.required.and(rule.attrs),
                ..sum
            },
            Need::Optional => Takes {
                optional: sum.optional.and(rule.attrs),
                ..sum
            },
        })
}

/// Checks a change with these attributes.
///
/// # Errors
///
/// The first reason found. Callers return `EINVAL` for all of them and use the reason in a debug
/// message.
pub fn judge(from: QpState, to: QpState, qp_type: QpType, attrs: Attrs) -> Result<(), Refusal> {
    if attrs.has_any(Attrs::CUR_STATE) && !from.can_be_claimed() {
        return Err(Refusal::Claim);
    }
    if !follows(from, to) {
        return Err(Refusal::NoSuchChange);
    }
    let Takes { required, optional } = takes(from, to, qp_type);
    let missing = required.without(attrs);
    if !missing.is_empty() {
        return Err(Refusal::Missing(missing));
    }
    let excess = attrs.without(required.and(optional).and(ALWAYS));
    if !excess.is_empty() {
        return Err(Refusal::NotAllowed(excess));
    }
    Ok(())
}

/// Returns whether a change with these attributes is allowed: `ib_modify_qp_is_ok`.
pub fn check(from: QpState, to: QpState, qp_type: QpType, attrs: Attrs) -> bool {
    judge(from, to, qp_type, attrs).is_ok()
}
