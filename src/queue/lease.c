/* The states of a task message on a node: see lease.h. */
#include "queue/lease.h"

struct rule {
    enum gd__lease_action action;
    enum gd__lease_state next; /* 0: the event is ignored */
};

#define RULE(action, next)                   \
    {                                        \
        GD__LEASE_##action, GD__LEASE_##next \
    }

static const struct rule rules[GD__LEASE_STATES][GD__LEASE_EVENTS] = {
    /* Delivery counts do not survive the death of a server, so every delivery may be a second one: look first. */
    [GD__LEASE_NEW] = {
        [GD__LEASE_BEGIN] = RULE(LOOK, LOOKING),
        [GD__LEASE_DRAIN] = RULE(NAK, ENDED),
        [GD__LEASE_GIVE_UP] = RULE(NAK, ENDED),
    },
    [GD__LEASE_LOOKING] = {
        [GD__LEASE_NO_ANSWER] = RULE(LOOK, LOOKING),
        [GD__LEASE_NO_RECORD] = RULE(START, RUNNING),
        [GD__LEASE_SUSPECT] = RULE(READ_MARKER, SUSPECTED),
        [GD__LEASE_OURS] = RULE(ACK_WON, ENDED),
        [GD__LEASE_OURS_PART] = RULE(MOVE_WON, MOVING),
        [GD__LEASE_ANOTHERS] = RULE(ACK_LOST, ENDED),
        [GD__LEASE_ANOTHERS_PART] = RULE(MOVE_LOST, MOVING),
        [GD__LEASE_DRAIN] = RULE(NAK, ENDED),
        [GD__LEASE_GIVE_UP] = RULE(NAK, ENDED),
    },
    /* Here and in RUNNING, a message that is delivered again may have got a record since the first look: the node that has
     * published it lost its connection, and gave the message back. Or this node has just published the record of an earlier
     * run. */
    [GD__LEASE_SUSPECTED] = {
        [GD__LEASE_AGAIN] = RULE(LOOK, LOOKING),
        [GD__LEASE_NO_ANSWER] = RULE(READ_MARKER, SUSPECTED),
        [GD__LEASE_TURN] = RULE(MARK, MARKING),
        [GD__LEASE_MARKER_OK] = RULE(START, MARKED),
        [GD__LEASE_CONVICTED] = RULE(PUBLISH, PUBLISHING),
        [GD__LEASE_DRAIN] = RULE(NAK, ENDED),
        [GD__LEASE_GIVE_UP] = RULE(NAK, ENDED),
    },
    /* A drain waits for the answer: only then can the marker be taken back. */
    [GD__LEASE_MARKING] = {
        [GD__LEASE_NO_ANSWER] = RULE(MARK, MARKING),
        [GD__LEASE_MARKER_OK] = RULE(START, MARKED),
        [GD__LEASE_MARKER_LOST] = RULE(READ_MARKER, SUSPECTED),
        [GD__LEASE_GIVE_UP] = RULE(LEAVE, ENDED),
    },
    /* A drain waits for what runs. */
    [GD__LEASE_RUNNING] = {
        [GD__LEASE_AGAIN] = RULE(LOOK, LOOKING),
        [GD__LEASE_RAN] = RULE(PUBLISH, PUBLISHING),
        [GD__LEASE_NOT_RUN] = RULE(NAK, ENDED),
        [GD__LEASE_CHARGED] = RULE(UNMARK, UNMARKING),
        [GD__LEASE_GIVE_UP] = RULE(NAK, ENDED),
    },
    [GD__LEASE_MARKED] = {
        [GD__LEASE_RAN] = RULE(PUBLISH, PUBLISHING),
        [GD__LEASE_NOT_RUN] = RULE(UNMARK, UNMARKING),
        [GD__LEASE_CHARGED] = RULE(UNMARK, UNMARKING),
        [GD__LEASE_GIVE_UP] = RULE(LEAVE, ENDED),
    },
    /* If the marker is that of another node, that node has the message and lives. Giving it back would take it away from
     * there, and a third node would take the marker for that of a dead one. */
    [GD__LEASE_UNMARKING] = {
        [GD__LEASE_NO_ANSWER] = RULE(UNMARK, UNMARKING),
        [GD__LEASE_MARKER_OK] = RULE(NAK, ENDED),
        [GD__LEASE_MARKER_LOST] = RULE(LEAVE, ENDED),
        [GD__LEASE_GIVE_UP] = RULE(LEAVE, ENDED),
    },
    /* No answer says nothing: the server may have stored the record, or may store it later. */
    [GD__LEASE_PUBLISHING] = {
        [GD__LEASE_NO_ANSWER] = RULE(PUBLISH, PUBLISHING),
        [GD__LEASE_ACCEPTED] = RULE(ACK_WON, ENDED),
        [GD__LEASE_ACCEPTED_PART] = RULE(MOVE_WON, MOVING),
        [GD__LEASE_REFUSED] = RULE(READ, COMPARING),
        [GD__LEASE_GIVE_UP] = RULE(LEAVE, ENDED),
    },
    /* A server that lost its last second has no record any more. */
    [GD__LEASE_COMPARING] = {
        [GD__LEASE_NO_ANSWER] = RULE(READ, COMPARING),
        [GD__LEASE_NO_RECORD] = RULE(PUBLISH, PUBLISHING),
        [GD__LEASE_OURS] = RULE(ACK_WON, ENDED),
        [GD__LEASE_OURS_PART] = RULE(MOVE_WON, MOVING),
        [GD__LEASE_ANOTHERS] = RULE(ACK_LOST, ENDED),
        [GD__LEASE_ANOTHERS_PART] = RULE(MOVE_LOST, MOVING),
        [GD__LEASE_GIVE_UP] = RULE(LEAVE, ENDED),
    },
    [GD__LEASE_MOVING] = {
        [GD__LEASE_NO_ANSWER] = RULE(MOVE, MOVING),
        [GD__LEASE_MOVED] = RULE(READ, CONFIRMING),
        [GD__LEASE_GIVE_UP] = RULE(LEAVE, ENDED),
    },
    [GD__LEASE_CONFIRMING] = {
        [GD__LEASE_NO_ANSWER] = RULE(READ, CONFIRMING),
        [GD__LEASE_SAME] = RULE(ACK, ENDED),
        [GD__LEASE_OURS] = RULE(ACK, ENDED),
        [GD__LEASE_OURS_PART] = RULE(MOVE, MOVING),
        [GD__LEASE_ANOTHERS] = RULE(ACK, ENDED),
        [GD__LEASE_ANOTHERS_PART] = RULE(MOVE, MOVING),
        [GD__LEASE_NO_RECORD] = RULE(NAK, ENDED),
        [GD__LEASE_GIVE_UP] = RULE(LEAVE, ENDED),
    },
};

enum gd__lease_action gd__lease_step(enum gd__lease_state *state, enum gd__lease_event event)
{
    const struct rule rule = rules[*state][event];
    if (rule.next == 0)
        return GD__LEASE_NOTHING;
    *state = rule.next;
    return rule.action;
}
