package policy

import (
	"fmt"
	"strings"
	"testing"
)

// TestMistakes: each mistake has an error that names the line, the field and the way
// out.
func TestMistakes(t *testing.T) {
	step := func(lines string) string { return "routing_policy:\n  strategy: least-loaded\n" + lines }
	const operators = "exactly one of gt, gte, lt, lte is needed"
	cases := map[string]struct{ text, want string }{
		"empty":                  {"", "line 1: the document is empty"},
		"only a comment":         {"# nothing yet\n", "line 1: the document is empty"},
		"null":                   {"null\n", "line 1: the document is empty"},
		"a list":                 {"- a\n", "line 1: a mapping is needed, not a list"},
		"a text":                 {"least-loaded\n", `line 1: a mapping is needed, not "least-loaded"`},
		"not YAML":               {"models: [a\nmode: x", "line 2: not valid YAML: while parsing a flow sequence"},
		"two documents":          {"mode: reserved\n---\nmode: reserved\n", "line 2: a second document begins here; a file holds one policy"},
		"misspelt key":           {"mode: reserved\nrouting_polcy: {}\n", "line 2: routing_polcy: unknown key, did you mean routing_policy?"},
		"unknown key":            {"hedging: 3\n", "line 1: hedging: unknown key; it is one of models, mode, max_input_tokens, images_max, admit_budget_tokens, max_inflight, max_occupancy_share, shed_if, routing_policy, fallback_chain, fallback_provider, split, split_tenants, shadow, adapter"},
		"upper case":             {"Mode: reserved\n", "line 1: Mode: unknown key, did you mean mode?"},
		"duplicate key":          {"mode: reserved\nmode: serverless\n", "line 2: mode: the key stands on line 1 already"},
		"a key that is none":     {"[a]: b\n", "line 1: a key must be a plain name"},
		"mode":                   {"mode: server-less\n", `line 1: mode: "server-less" is not one of reserved, serverless, did you mean serverless?`},
		"no models":              {"models: []\n", "line 1: models: name at least one model, or remove the key to make this the document of all models"},
		"models without a value": {"models:\n", "line 1: models: name at least one model, or remove the key to make this the document of all models"},
		"models is a text":       {"models: a\n", `line 1: models: a list is needed, not "a"`},
		"a model twice":          {"models:\n  - a\n  - a\n", `line 3: models[1]: "a" stands in the list already`},
		"an empty model":         {"models: ['']\n", `line 1: models[0]: "" is empty, or has spaces around it`},
		"a model with a newline": {"models: [\"a\\nb\"]\n", `line 1: models[0]: "a\nb" has characters that can't be printed`},
		"negative":               {"max_input_tokens: -1\n", `line 1: max_input_tokens: a whole number from 0 to 9007199254740992 is needed, not "-1"`},
		"not whole":              {"images_max: 1.5\n", `line 1: images_max: a whole number from 0 to 9007199254740992 is needed, not "1.5"`},
		"number as text":         {"max_inflight: \"9\"\n", `line 1: max_inflight: a whole number from 0 to 9007199254740992 is needed, not "9"`},
		"a number is a mapping":  {"admit_budget_tokens: {}\n", "line 1: admit_budget_tokens: a whole number from 0 to 9007199254740992 is needed, not a mapping"},
		"share":                  {"max_occupancy_share: 40\n", `line 1: max_occupancy_share: a number from 0 to 1 is needed, not "40"`},
		"shed on something else": {"shed_if:\n  srtt: {gt: 1}\n", "line 2: shed_if.srtt: unknown key; it is one of kv_cache_utilization, waiting_requests"},
		"shed without operator":  {"shed_if:\n  waiting_requests: {}\n", "line 2: shed_if.waiting_requests: " + operators},
		"shed with on_missing":   {"shed_if: {waiting_requests: {gt: 1, on_missing: skip}}\n", "line 1: shed_if.waiting_requests.on_missing: unknown key; it is one of gt, gte, lt, lte"},

		"no strategy":             {"routing_policy:\n  max_tries: 3\n", "line 1: routing_policy: strategy is missing"},
		"an empty step":           {"routing_policy:\n", "line 1: routing_policy: strategy is missing"},
		"no strategy in chain":    {"fallback_chain:\n  - name: a\n", "line 2: fallback_chain[0]: strategy is missing"},
		"a name twice":            {"fallback_chain:\n  - {name: a, strategy: least-loaded}\n  - {name: a, strategy: least-loaded}\n", `line 3: fallback_chain[1].name: "a" is the name of the step on line 2 already`},
		"the first step's name":   {"fallback_chain:\n  - {name: routing_policy, strategy: least-loaded}\n", `line 2: fallback_chain[0].name: "routing_policy" is the name of the first step`},
		"a name in the first":     {step("  name: a\n"), "line 3: routing_policy.name: unknown key; it is one of match, exclude_if, strategy, options, max_tries, max_wait, first_byte_timeout, hedge"},
		"unknown strategy":        {"routing_policy: {strategy: fastest}\n", `line 1: routing_policy.strategy: unknown strategy "fastest"; it is one of least-loaded, least-tokens, lowest-kv-cache, lowest-latency, lowest-queue, power-of-two, prefix-aware, round-robin, session-affinity`},
		"misspelt strategy":       {"routing_policy: {strategy: least_loaded}\n", `line 1: routing_policy.strategy: unknown strategy "least_loaded", did you mean least-loaded?`},
		"lowest-srtt":             {"routing_policy: {strategy: lowest-srtt}\n", "line 1: routing_policy.strategy: there is no strategy lowest-srtt; the nearest is lowest-latency"},
		"best-ttft":               {"routing_policy: {strategy: best-ttft}\n", "line 1: routing_policy.strategy: there is no strategy best-ttft; the nearest is lowest-latency"},
		"best-itl":                {"routing_policy: {strategy: {best-itl: 1}}\n", "line 1: routing_policy.strategy.best-itl: there is no strategy best-itl; the nearest is lowest-latency"},
		"strategy without value":  {"routing_policy: {strategy: }\n", "line 1: routing_policy.strategy: the name of a strategy is needed, or a weight for each of several, not nothing"},
		"weight":                  {"routing_policy: {strategy: {least-loaded: 0}}\n", `line 1: routing_policy.strategy.least-loaded: a weight above 0 and up to 1e+06 is needed, not "0"`},
		"round-robin combined":    {"routing_policy:\n  strategy: {round-robin: 1, least-loaded: 1}\n", "line 2: routing_policy.strategy.round-robin: round-robin can't be combined with other strategies"},
		"power-of-two combined":   {"routing_policy:\n  strategy: {least-loaded: 1, power-of-two: 1}\n", "line 2: routing_policy.strategy.power-of-two: power-of-two can't be combined with other strategies"},
		"option of another":       {step("  options: {bound: 2}\n"), "line 3: routing_policy.options.bound: this is an option of session-affinity, which the step does not use"},
		"bound":                   {"routing_policy: {strategy: session-affinity, options: {bound: 0.5}}\n", `line 1: routing_policy.options.bound: a number from 1 to 1000000 is needed, not "0.5"`},
		"sticky":                  {"routing_policy: {strategy: session-affinity, options: {sticky: very}}\n", `line 1: routing_policy.options.sticky: "very" is not one of soft, hard`},
		"sticky combined":         {"routing_policy: {strategy: {session-affinity: 1, least-loaded: 1}, options: {sticky: hard}}\n", "line 1: routing_policy.options.sticky: a hard session has one home, so other strategies have no say; remove them, or use soft"},
		"share_tenants":           {"routing_policy: {strategy: prefix-aware, options: {share_tenants: 1}}\n", `line 1: routing_policy.options.share_tenants: true or false is needed, not "1"`},
		"max_tries":               {step("  max_tries: 101\n"), `line 3: routing_policy.max_tries: a whole number from 0 to 100 is needed, not "101"`},
		"max_wait without a unit": {step("  max_wait: 5\n"), `line 3: routing_policy.max_wait: a time from 0s to 1h0m0s like 500ms or 2s is needed, not "5"`},
		"match on a misspelt key": {step("  match: {regoin: eu}\n"), "line 3: routing_policy.match.regoin: unknown key, did you mean region?"},
		"tags is a text":          {step("  match: {tags: a}\n"), `line 3: routing_policy.match.tags: a list is needed, not "a"`},

		"unknown signal":      {step("  exclude_if:\n    latency: {gt: 1}\n"), "line 4: routing_policy.exclude_if.latency: unknown key; it is one of " + strings.Join(signalNames[:], ", ")},
		"misspelt signal":     {step("  exclude_if:\n    sucess_rate: {lt: 1}\n"), "line 4: routing_policy.exclude_if.sucess_rate: unknown key, did you mean success_rate?"},
		"no operator":         {step("  exclude_if:\n    srtt: {}\n"), "line 4: routing_policy.exclude_if.srtt: " + operators},
		"no gate":             {step("  exclude_if:\n    srtt:\n"), "line 4: routing_policy.exclude_if.srtt: " + operators},
		"two operators":       {step("  exclude_if:\n    srtt:\n      gt: 1\n      lt: 9\n"), "line 4: routing_policy.exclude_if.srtt: " + operators},
		"only on_missing":     {step("  exclude_if:\n    srtt: {on_missing: skip}\n"), "line 4: routing_policy.exclude_if.srtt: " + operators},
		"unknown operator":    {step("  exclude_if:\n    srtt: {above: 1}\n"), "line 4: routing_policy.exclude_if.srtt.above: unknown key; it is one of gt, gte, lt, lte, on_missing"},
		"gate without braces": {step("  exclude_if:\n    srtt: 200\n"), `line 4: routing_policy.exclude_if.srtt: a mapping is needed, not "200"`},
		"percent":             {step("  exclude_if:\n    gpu_util_percent: {gt: 90}\n"), "line 4: routing_policy.exclude_if.gpu_util_percent.gt: gpu_util_percent is a fraction from 0 to 1, so write 0.9 for 90 percent"},
		"far above 1":         {step("  exclude_if:\n    success_rate: {lt: 900}\n"), `line 4: routing_policy.exclude_if.success_rate.lt: success_rate is a fraction from 0 to 1, not "900"`},
		"negative limit":      {step("  exclude_if:\n    srtt: {gt: -1}\n"), `line 4: routing_policy.exclude_if.srtt.gt: a number from 0 up is needed, not "-1"`},
		"NaN":                 {step("  exclude_if:\n    srtt: {gt: .nan}\n"), `line 4: routing_policy.exclude_if.srtt.gt: a finite number is needed, not ".nan"`},
		"Inf":                 {step("  exclude_if:\n    srtt: {gt: .inf}\n"), `line 4: routing_policy.exclude_if.srtt.gt: a finite number is needed, not ".inf"`},
		"limit as text":       {step("  exclude_if:\n    srtt: {gt: 200ms}\n"), `line 4: routing_policy.exclude_if.srtt.gt: a finite number is needed, not "200ms"`},
		"on_missing":          {step("  exclude_if:\n    srtt: {gt: 1, on_missing: exlude}\n"), `line 4: routing_policy.exclude_if.srtt.on_missing: "exlude" is not one of exclude, skip, did you mean exclude?`},

		"provider without model": {"fallback_provider: {engine: openai}\n", "line 1: fallback_provider: model is missing"},
		"unknown provider":       {"fallback_provider: {engine: opnai, model: m}\n", `line 1: fallback_provider.engine: "opnai" is not one of anthropic, openai, did you mean openai?`},
		"split is a list":        {"models: [a]\nsplit: [b]\n", "line 2: split: a mapping is needed, not a list"},
		"split without an alias": {"split: {b: 1}\n", "line 1: split: models is missing: it names the alias that is split"},
		"split without weights":  {"models: [a]\nsplit: {b: 0}\n", "line 2: split: at least one model needs a weight above 0"},
		"split with a weight":    {"models: [a]\nsplit: {b: -1}\n", `line 2: split.b: a weight from 0 to 1e+06 is needed, not "-1"`},
		"split to itself":        {"models: [a]\nsplit: {a: 1}\n", `line 1: split: "a" is the alias itself`},
		"split and steps":        {"models: [a]\nsplit: {b: 1}\nrouting_policy: {strategy: least-loaded}\n", "line 1: routing_policy: a document with split places nothing itself; the policies of the models that it names hold"},
		"shadow without a share": {"shadow: {model: m}\n", "line 1: shadow: share is missing"},
		"shadow in percent":      {"shadow: {model: m, share: 5}\n", `line 1: shadow.share: a number from 0 to 1 is needed, not "5"`},
		"merging a text":         {"<<: a\nmode: reserved\n", "line 1: << can merge mappings only"},
	}
	for name, c := range cases {
		d, err := Parse("p", []byte(c.text))
		if err == nil {
			t.Errorf("%s: no error; %+v", name, d)
			continue
		}
		if got := err.Error(); got != c.want && !(name == "not YAML" && strings.HasPrefix(got, "line 2: not valid YAML: ")) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// TestAllMistakesAtOnce: an operator sees everything in one go, in the order of the
// document, and no more than a screen or two.
func TestAllMistakesAtOnce(t *testing.T) {
	_, err := Parse("p", []byte("max_inflight: x\nrouting_policy:\n  exclude_if: {srtt: {}}\nmode: y\n"))
	want := `line 1: max_inflight: a whole number from 0 to 9007199254740992 is needed, not "x"
line 2: routing_policy: strategy is missing
line 3: routing_policy.exclude_if.srtt: exactly one of gt, gte, lt, lte is needed
line 4: mode: "y" is not one of reserved, serverless`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "nonsense%d: 1\n", i)
	}
	_, err = Parse("p", []byte(b.String()))
	if err == nil || strings.Count(err.Error(), "\n") != maxProblems || !strings.HasSuffix(err.Error(), "\nand 900 more") {
		t.Errorf("got %v", err)
	}
}

// TestBounds: a small text can't cause much work.
func TestBounds(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"too large":              {strings.Repeat("#", MaxDocument+1), "the document has 1048577 bytes, more than the limit of 1048576"},
		"tenants alone":          {"models: [a]\nsplit_tenants: {acme: {b: 1}}\n", "line 1: split_tenants: split is missing: it is for the tenants that are not named"},
		"a tenant without":       {"models: [a]\nsplit: {b: 1}\nsplit_tenants: {acme: {b: 0}}\n", "line 3: split_tenants.acme: at least one model needs a weight above 0"},
		"a tenant's own alias":   {"models: [a]\nsplit: {b: 1}\nsplit_tenants: {acme: {a: 1}}\n", "line 1: split: \"a\" is the alias itself"},
		"adapter without a base": {"models: [l]\nadapter: {path: /x}\n", "line 2: adapter: base is missing"},
		"adapter of itself":      {"models: [l]\nadapter: {base: l, path: /x}\n", "line 1: adapter: \"l\" is an adapter of itself"},
		"adapter of nothing":     {"adapter: {base: m, path: /x}\n", "line 1: adapter: models is missing: it names the adapters"},
		"one path for many":      {"models: [k, l]\nadapter: {base: m, path: /x}\n", "line 1: adapter: path is the same for 2 adapters; write {model} where the name of each belongs"},
		"no replicas":            {"models: [l]\nadapter: {base: m, path: /x, replicas: 0}\n", "line 2: adapter.replicas: at least 1 is needed"},
		"adapter and alias":      {"models: [l]\nsplit: {m: 1}\nadapter: {base: m, path: /x}\n", "line 1: adapter: a document with split places nothing itself; the policies of the models that it names hold"},
		"too many aliases":       {"routing_policy: {strategy: least-loaded, match: {region: &r eu, tags: [" + strings.Repeat("*r, ", 60) + "], adapters: [" + strings.Repeat("*r, ", 60) + "]}}\n", "the document has more than 100 aliases"},
		"merges itself":          {"routing_policy: &a\n  <<: *a\n  strategy: least-loaded\n", "aliases"},
		"holds itself":           {"fallback_chain: &a [*a]\n", "not a list"},
		"too many steps":         {"fallback_chain: [" + strings.Repeat("{strategy: least-loaded}, ", 33) + "]\n", "line 1: fallback_chain: the list has 33 items, more than the limit of 32"},
		"too many models":        {"models: [" + strings.Repeat("a, ", 1001) + "]\n", "more than the limit of 1000"},
		"a long name":            {"models: [" + strings.Repeat("a", 201) + "]\n", "line 1: models[0]: the text has 201 bytes, more than the limit of 200"},
		"deep":                   {strings.Repeat("[", 200_000), "not valid YAML"},
	}
	for name, c := range cases {
		if _, err := Parse("p", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}
