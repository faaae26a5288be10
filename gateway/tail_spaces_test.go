package gateway

import (
	"encoding/json"
	"testing"

	"github.com/tokenbus/tokenbus/bus"
)

// TestFailedResponseFollows: the event that ends a Responses stream carries the id
// of that response and the next number, with or without the spaces that Python's
// encoder writes, and whatever else looks like them.
func TestFailedResponseFollows(t *testing.T) {
	cases := map[string]struct {
		text   string
		id     string
		number int64
	}{
		"compact":            {`data: {"response":{"id":"resp_a"},"sequence_number":7}` + "\n\n", "resp_a", 8},
		"spaces":             {`data: {"response": {"id": "resp_a"}, "sequence_number": 7}` + "\n\n", "resp_a", 8},
		"the one before":     {`data: {"response":{"previous_response_id":"resp_b","id":"resp_a"},"sequence_number":7}` + "\n\n", "resp_a", 8},
		"text that looks so": {`data: {"response":{"id":"resp_a"},"sequence_number":7,"delta":"\"id\":\"resp_b\",\"sequence_number\":99,"}` + "\n\n", "resp_a", 8},
		"nothing yet":        {"", "resp_req-1", 0},
	}
	for name, c := range cases {
		for _, step := range []int{1, 7, 1 << 20} {
			seen := feed(newTail(bus.Responses), c.text, func(left int) int { return min(left, step) })
			var doc struct {
				Type     string
				Number   int64 `json:"sequence_number"`
				Response struct{ ID, Object, Status, Model string }
			}
			if err := json.Unmarshal(failedResponse("req-1", "m", seen, bus.Errorf(bus.ReasonEngineLost, "gone")), &doc); err != nil {
				t.Fatal(err)
			}
			if r := doc.Response; doc.Type != "response.failed" || r.ID != c.id || doc.Number != c.number || r.Object != "response" || r.Status != "failed" || r.Model != "m" {
				t.Errorf("%s, %d at a time: %+v, want %s and %d", name, step, doc, c.id, c.number)
			}
		}
	}
}
