// Package docs_test keeps the documentation true to the repository.
package docs_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are all Markdown files of the repository, with their text.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && filepath.Ext(path) != ".md" {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name != ".." && strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks: every link to a file of the repository leads to one.
func TestLinks(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), target)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, target)
			}
		}
	}
}

var (
	testName = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestNamedTests: every test that a page calls a proof exists.
func TestNamedTests(t *testing.T) {
	exists := make(map[string]bool)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(b, -1) {
			exists[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !exists[m[1]] {
				t.Errorf("%s names the test %s, which does not exist", page, m[1])
			}
		}
	}
}

// TestDependencies: dependencies.md defends every direct dependency, and no other.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	direct := make(map[string]bool)
	for _, r := range mod.Require {
		if direct[r.Path] = !r.Indirect; !r.Indirect && !strings.Contains(string(page), "| `"+r.Path+"` |") {
			t.Errorf("dependencies.md does not defend %s", r.Path)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		if !direct[m[1]] {
			t.Errorf("dependencies.md defends %s, which is no direct dependency", m[1])
		}
	}
}
