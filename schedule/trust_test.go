package schedule

import "testing"

func TestTrust(t *testing.T) {
	for name, c := range map[string]struct {
		signals map[string]float64
		want    float64
	}{
		"nothing known":         {nil, 1},
		"nothing reported":      {map[string]float64{"predicted_hit_rate": 0.8}, 1},
		"too little for a rate": {map[string]float64{"predicted_hit_rate": 0.01, "cached_hit_rate": 0}, 1},
		"half kept":             {map[string]float64{"predicted_hit_rate": 0.8, "cached_hit_rate": 0.4}, 0.5},
		"nothing kept":          {map[string]float64{"predicted_hit_rate": 0.8, "cached_hit_rate": 0}, leastTrust},
		"more than promised":    {map[string]float64{"predicted_hit_rate": 0.2, "cached_hit_rate": 0.6}, 1},
	} {
		if got := trust(c.signals); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
