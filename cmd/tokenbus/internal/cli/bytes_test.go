package cli

import "testing"

func TestBytes(t *testing.T) {
	for name, tc := range map[string]struct {
		in    string
		want  Bytes
		print string // empty is an error
	}{
		"zero":       {"0", 0, "0"},
		"plain":      {"1023", 1023, "1023"},
		"kibi":       {"1KiB", 1 << 10, "1KiB"},
		"mebi":       {"64MiB", 64 << 20, "64MiB"},
		"gibi":       {"2GiB", 2 << 30, "2GiB"},
		"kilo":       {"64KB", 64e3, "64KB"},
		"mega":       {"5MB", 5e6, "5MB"},
		"giga":       {"3GB", 3e9, "3GB"},
		"bytes":      {"7B", 7, "7"},
		"larger":     {"1024KiB", 1 << 20, "1MiB"},
		"case":       {"1mib", 1 << 20, "1MiB"},
		"space":      {" 1 MiB ", 1 << 20, "1MiB"},
		"largest":    {"9223372036854775807", 1<<63 - 1, "9223372036854775807"},
		"overflow":   {"8589934592GiB", 0, ""},
		"too long":   {"99999999999999999999", 0, ""},
		"negative":   {"-1", 0, ""},
		"fraction":   {"1.5GiB", 0, ""},
		"unit":       {"1K", 0, ""},
		"empty":      {"", 0, ""},
		"only units": {"MiB", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got Bytes
			err := got.UnmarshalText([]byte(tc.in))
			checkEqual(t, "refused", err != nil, tc.print == "")
			checkEqual(t, "size", got, tc.want)
			if tc.print != "" {
				checkEqual(t, "printed", got.String(), tc.print)
			}
		})
	}
}

// FuzzBytes checks that what is printed reads back as the same size.
func FuzzBytes(f *testing.F) {
	f.Add("64MiB")
	f.Add("1000")
	f.Fuzz(func(t *testing.T, in string) {
		var first, second Bytes
		if first.UnmarshalText([]byte(in)) != nil {
			return
		}
		if err := second.UnmarshalText([]byte(first.String())); err != nil || first != second {
			t.Errorf("%q is %d, prints as %v, which is %d (%v)", in, int64(first), first, int64(second), err)
		}
	})
}
