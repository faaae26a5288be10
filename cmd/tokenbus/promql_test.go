package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// query is what a PromQL expression names: its metrics, each with the labels of its
// matchers, and the labels of its by, without, on, ignoring and group clauses.
type query struct {
	metrics map[string][]string
	groups  []string
}

var promToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|\$\{?\w+\}?|[A-Za-z_:][\w:]*|[0-9][\w.]*|=~|!~|!=|==|<=|>=|\S`)

var (
	clauses  = map[string]bool{"by": true, "without": true, "on": true, "ignoring": true, "group_left": true, "group_right": true}
	keywords = map[string]bool{"and": true, "or": true, "unless": true, "bool": true, "offset": true, "inf": true, "nan": true}
	name     = regexp.MustCompile(`^[A-Za-z_:]`)
)

// scanQuery reads an expression. It is no parser: it finds names.
func scanQuery(expr string) (query, error) {
	q := query{metrics: make(map[string][]string)}
	tokens := promToken.FindAllString(expr, -1)
	at := func(i int) string {
		if i < len(tokens) {
			return tokens[i]
		}
		return ""
	}
	// until gives the names up to a closing token and the place behind it.
	until := func(i int, end string) (names []string, next int, err error) {
		for ; at(i) != end; i++ {
			if i >= len(tokens) {
				return nil, i, fmt.Errorf("%q: %s is missing", expr, end)
			}
			if name.MatchString(at(i)) {
				names = append(names, at(i))
			}
		}
		return names, i + 1, nil
	}
	depth := 0
	for i := 0; i < len(tokens); {
		var names []string
		var err error
		switch t := at(i); {
		case t == "[":
			_, i, err = until(i, "]")
		case t == "(" || t == ")":
			if depth++; t == ")" {
				depth -= 2
			}
			i++
		case !name.MatchString(t) || keywords[t]:
			i++
		case clauses[t]:
			if i++; at(i) == "(" {
				names, i, err = until(i, ")")
				q.groups = append(q.groups, names...)
			}
		case at(i+1) == "(" || clauses[at(i+1)]:
			i++ // a function or an aggregation
		case at(i+1) == "{":
			names, i, err = until(i+1, "}")
			q.metrics[t] = append(q.metrics[t], names...)
		default:
			q.metrics[t] = append(q.metrics[t], names...)
			i++
		}
		if err != nil {
			return q, err
		}
	}
	if depth != 0 {
		return q, fmt.Errorf("%q: the brackets do not match", expr)
	}
	return q, nil
}

func TestScanQuery(t *testing.T) {
	for expr, want := range map[string]string{
		`sum by (le, model) (rate(a_bucket{x="by(z)", y=~"b|c"}[$__rate_interval])) > 0.5`: "a_bucket{x,y} by le,model",
		`histogram_quantile(0.9, sum(rate(a[5m])))`:                                        "a{} by ",
		`a * on (agent) group_left () max by (agent) (b{m=~"$model"}) and c == 0`:          "a{} b{m} c{} by agent,agent",
		`increase(a:b_total[10m]) unless up offset 5m`:                                     "a:b_total{} up{} by ",
	} {
		q, err := scanQuery(expr)
		if err != nil {
			t.Error(err)
			continue
		}
		var got strings.Builder
		for _, m := range sortedKeys(q.metrics) {
			fmt.Fprintf(&got, "%s{%s} ", m, strings.Join(q.metrics[m], ","))
		}
		got.WriteString("by " + strings.Join(q.groups, ","))
		if got.String() != want {
			t.Errorf("%s: %s, want %s", expr, got.String(), want)
		}
	}
	for _, expr := range []string{"sum(a", "a{b", "a[5m", "a)"} {
		if _, err := scanQuery(expr); err == nil {
			t.Errorf("%s: no error", expr)
		}
	}
}
