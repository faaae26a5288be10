package main

import (
	"math"
	"slices"
)

// percentile gives the value below which the share p (0 to 1) of values lies, by
// linear interpolation between the two next to it. It sorts values. Of no values it
// is not a number.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	at := p * float64(len(values)-1)
	low := int(at)
	if low >= len(values)-1 {
		return values[len(values)-1]
	}
	share := at - float64(low)
	return values[low]*(1-share) + values[low+1]*share
}

// median is percentile 0.5 without changing values.
func median(values []float64) float64 { return percentile(slices.Clone(values), 0.5) }
