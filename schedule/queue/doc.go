// Package queue holds requests that wait for room, one queue a model. It is pure:
// it knows no clock, no bus and no lock. Deadlines and cancellations come from its
// owner, who removes what need not wait any longer.
//
// # Order
//
// A higher band goes strictly before a lower one. Inside a band the tenants share
// by tokens, not by requests, with the Virtual Token Counter of Sheng et al.,
// "Fairness in Serving Large Language Models" (OSDI 2024): each tenant has a
// counter of the tokens it was served, and the lowest counter among those who wait
// goes next. Between equal counters the request that came first does. Inside a
// tenant the order is that of arrival.
//
// A tenant that begins to wait has its counter lifted to the lowest of those who
// wait already, or to that of the one served last if nobody does. So nobody saves
// up credit by being idle. Two tenants that both have requests waiting are
// never further apart than the largest request of either.
//
// Counters are charged with an estimate when a request is taken, and corrected
// later with what was really used.
//
// # Bounds
//
// A queue is bounded in count, all queues together in bytes. At a bound, the
// newest requests of the band [Sheddable] make room for those above it. Counters
// of tenants that do not wait are bounded, too: the one that waited last longest
// ago is forgotten first, and then counts as new.
package queue
