package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

const busDir = "../../bus"

// constant is one string or character constant of package bus, under its name.
type constant struct{ name, value string }

// busSource reads what package bus says: its constants, its string literals, and
// the functions that build subjects.
func busSource(t *testing.T) (constants []constant, literals, builders []string) {
	t.Helper()
	files, err := filepath.Glob(busDir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						if v, ok := text(n.Values[i]); ok {
							constants = append(constants, constant{name.Name, v})
						}
					}
				}
			case *ast.BasicLit:
				if v, ok := text(n); ok {
					literals = append(literals, v)
				}
			case *ast.FuncDecl:
				if name := n.Name.Name; n.Recv == nil && n.Name.IsExported() && !strings.HasPrefix(name, "Parse") &&
					(strings.HasSuffix(name, "Subject") || strings.HasSuffix(name, "Prefix") || strings.HasSuffix(name, "Key")) {
					builders = append(builders, name)
				}
			}
			return true
		})
	}
	if len(constants) == 0 || len(builders) == 0 {
		t.Fatal("nothing found in package bus")
	}
	return constants, literals, builders
}

// text is the value of a string or character literal.
func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return "", false
	}
	switch lit.Kind {
	case token.STRING:
		v, err := strconv.Unquote(lit.Value)
		return v, err == nil
	case token.CHAR:
		r, _, _, err := strconv.UnquoteChar(lit.Value[1:], '\'')
		return string(r), err == nil
	}
	return "", false
}

// onTheWire are the prefixes of the names of constants that other processes see.
var onTheWire = []string{"Header", "Reason", "Kind", "verb", "Note", "Class", "Bucket", "Status", "All", "PollSubject", "SchedulerGroup", "interestSubject"}

// TestWire: everything of package bus that crosses the wire is in wire.md.
func TestWire(t *testing.T) {
	page := read(t, "wire.md")
	constants, literals, builders := busSource(t)
	mention := func(what, word string) {
		t.Helper()
		if !strings.Contains(page, "`"+word+"`") {
			t.Errorf("wire.md does not mention %s `%s`", what, word)
		}
	}
	for _, c := range constants {
		for _, prefix := range onTheWire {
			if strings.HasPrefix(c.name, prefix) {
				mention(c.name, c.value)
				break
			}
		}
	}
	for _, v := range literals {
		switch parts := strings.Split(v, "."); {
		case strings.HasPrefix(v, "Tb-") && len(v) > len("Tb-"):
			mention("the header", v)
		case parts[0] == "tb" && len(parts) > 1 && parts[1] != "":
			if s := parts[0] + "." + parts[1]; !strings.Contains(page, "`"+s) {
				t.Errorf("wire.md does not mention the subjects %s", s)
			}
		}
	}
	for _, name := range builders {
		mention("the function", name)
	}
	for _, r := range bus.Routes {
		mention("the API", string(r.API))
		mention("the path", r.Path)
	}
}

// TestErrorTable: the table of errors says what the code says.
func TestErrorTable(t *testing.T) {
	page := read(t, "wire.md")
	constants, _, _ := busSource(t)
	for _, c := range constants {
		if strings.HasPrefix(c.name, "Reason") {
			e := &bus.Error{Reason: bus.Reason(c.value)}
			row(t, page, c.value, fmt.Sprint(e.Status()), "`"+e.Type()+"`")
		}
	}
}

// TestLimitTable: the table of limits says what the code says.
func TestLimitTable(t *testing.T) {
	page := read(t, "wire.md")
	size := func(n int) string {
		if n >= 1<<20 {
			return fmt.Sprintf("%d MiB", n>>20)
		}
		return fmt.Sprintf("%d KiB", n>>10)
	}
	for name, value := range map[string]string{
		"MaxPayload": size(bus.MaxPayload), "InlineBody": size(bus.InlineBody), "BodyPart": size(bus.BodyPart),
		"MinWindow": size(bus.MinWindow), "DefaultWindow": size(bus.DefaultWindow), "MaxWindow": size(bus.MaxWindow),
		"MaxModelBytes": fmt.Sprint(bus.MaxModelBytes, " bytes"), "MaxIDBytes": fmt.Sprint(bus.MaxIDBytes, " bytes"),
	} {
		row(t, page, name, value)
	}
	for name, value := range map[string]time.Duration{
		"DefaultTimeout": bus.DefaultTimeout, "BeatEvery": bus.BeatEvery, "BeatCoalesce": bus.BeatCoalesce, "StaleAfter": bus.StaleAfter,
		"GoneAfter": bus.GoneAfter, "RecordTTL": bus.RecordTTL, "RecordRefresh": bus.RecordRefresh,
	} {
		row(t, page, name, value.String())
	}
}

// row checks that a table has a row that begins with these cells.
func row(t *testing.T, page, name string, cells ...string) {
	t.Helper()
	want := "| `" + name + "` | " + strings.Join(cells, " | ") + " |"
	if !strings.Contains(page, want) {
		t.Errorf("wire.md has no row %q", want)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
