package bus

// Timings that tests of the protocol measure against.
const (
	LingerFor      = lingerFor
	SilentAfter    = silentAfter
	SilenceLimit   = silenceLimit
	SchedulerGrace = schedulerGrace
	ForgetAfter    = forgetAfter
	MaxRingFrames  = maxRingFrames
)

// Ring is what a sender keeps of what was not acknowledged.
func (s *Sender) Ring() (frames, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ring), s.ringBytes
}

// FrameReply makes the reply subject of a frame, for stand-ins.
func FrameReply(control string, kind Kind, seq uint64) string { return frameReply(control, kind, seq) }
