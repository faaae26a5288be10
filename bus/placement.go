package bus

import "encoding/binary"

// Placement says that an agent got a prompt, by the hashes of its blocks. Schedulers
// tell each other, so that all of them know what an engine has in its prefix cache.
type Placement struct {
	Agent, Epoch string
	Prompt       []uint64
}

// PlacedSubject is where a scheduler says its placements.
func PlacedSubject(scheduler string) string { return "tb.sched." + scheduler + ".placed" }

// AllPlaced is what schedulers listen to.
const AllPlaced = "tb.sched.*.placed"

// maxPlacedBlocks bounds one prompt of a message.
const maxPlacedBlocks = 1024

// EncodePlacements writes a message: for each placement the length of the agent's id
// and the id, the same of the epoch, the number of hashes (all lengths as uvarint)
// and the hashes (big-endian).
func EncodePlacements(batch []Placement) []byte {
	var b []byte
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, p := range batch {
		text(p.Agent)
		text(p.Epoch)
		b = binary.AppendUvarint(b, uint64(len(p.Prompt)))
		for _, h := range p.Prompt {
			b = binary.BigEndian.AppendUint64(b, h)
		}
	}
	return b
}

// DecodePlacements reads a message; what is not whole at its end is left out.
func DecodePlacements(b []byte) []Placement {
	var batch []Placement
	number := func() (uint64, bool) {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return 0, false
		}
		b = b[size:]
		return n, true
	}
	text := func() (string, bool) {
		n, ok := number()
		if !ok || n > uint64(len(b)) {
			return "", false
		}
		s := string(b[:n])
		b = b[n:]
		return s, true
	}
	for len(b) > 0 {
		var p Placement
		var ok1, ok2 bool
		p.Agent, ok1 = text()
		p.Epoch, ok2 = text()
		n, ok3 := number()
		if !ok1 || !ok2 || !ok3 || n > maxPlacedBlocks || 8*n > uint64(len(b)) {
			return batch
		}
		p.Prompt = make([]uint64, n)
		for i := range p.Prompt {
			p.Prompt[i] = binary.BigEndian.Uint64(b[8*i:])
		}
		b = b[8*n:]
		batch = append(batch, p)
	}
	return batch
}

// Placed tells the other schedulers.
func (o *Holder) Placed(batch []Placement) {
	_ = o.nc.Publish(PlacedSubject(o.id), EncodePlacements(batch))
}
