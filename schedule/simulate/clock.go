package simulate

import "time"

// event is something that happens at a point of virtual time.
type event struct {
	at  time.Duration
	seq uint64 // of its making: at one moment the first made comes first
	do  func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// clock is virtual time: a binary heap of what is to come.
type clock struct {
	now    time.Duration
	events []event
	seq    uint64
}

// after makes something happen after a while, or next if the while is not positive.
func (c *clock) after(d time.Duration, do func()) {
	c.seq++
	c.events = append(c.events, event{c.now + max(d, 0), c.seq, do})
	for i := len(c.events) - 1; i > 0; {
		parent := (i - 1) / 2
		if !c.events[i].before(&c.events[parent]) {
			return
		}
		c.events[i], c.events[parent] = c.events[parent], c.events[i]
		i = parent
	}
}

// next lets the next event happen; it gives false if there is none.
func (c *clock) next() bool {
	if len(c.events) == 0 {
		return false
	}
	e := c.events[0]
	last := len(c.events) - 1
	c.events[0] = c.events[last]
	c.events[last] = event{}
	c.events = c.events[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && c.events[child+1].before(&c.events[child]) {
			child++
		}
		if !c.events[child].before(&c.events[i]) {
			break
		}
		c.events[i], c.events[child] = c.events[child], c.events[i]
		i = child
	}
	c.now = e.at
	e.do()
	return true
}
