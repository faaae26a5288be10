package cli

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// list is the value of a repeatable flag that came element by element, or of a
// map flag as key=value elements. No element is split any further.
type list []string

// listMapper lets the mapper of a repeatable flag accept a [list].
type listMapper struct{ inner kong.MapperFunc }

// Decode implements [kong.Mapper].
func (m listMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	elements, ok := ctx.Scan.Peek().Value.(list)
	if !ok {
		return m.inner.Decode(ctx, target)
	}
	ctx.Scan.Pop()
	if target.Kind() == reflect.Slice {
		target.Set(reflect.MakeSlice(target.Type(), 0, len(elements)))
	}
	// Without separators each element reaches the element's mapper whole.
	value, tag := *ctx.Value, *ctx.Value.Tag
	tag.Sep, tag.MapSep = -1, -1
	value.Tag = &tag
	for _, element := range elements {
		scan := kong.Scan().PushTyped(element, kong.FlagValueToken)
		if err := m.inner.Decode(&kong.DecodeContext{Value: &value, Scan: scan}, target); err != nil {
			return fmt.Errorf("element %q: %w", element, err)
		}
	}
	return nil
}

// check says what is wrong with value, a string or a [list], as a setting of
// flag. It does not touch the grammar.
func check(flag *kong.Flag, value any) error {
	if isSecret(flag.Target.Type()) && value == mask {
		return errors.New("this is the mask that is printed in place of a secret")
	}
	target := reflect.New(flag.Target.Type()).Elem()
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
	}
	scan := kong.Scan().PushTyped(value, kong.FlagValueToken)
	if err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scan}, target); err != nil {
		return err
	}
	if flag.Enum == "" {
		return nil
	}
	return checkEnum(flag.EnumSlice(), target)
}

func checkEnum(allowed []string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		return checkEnum(allowed, v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if err := checkEnum(allowed, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	if got := fmt.Sprint(v.Interface()); !slices.Contains(allowed, got) {
		return fmt.Errorf("want one of %s%s", strings.Join(allowed, ", "), didYouMean(got, allowed))
	}
	return nil
}

// badValue words what is wrong with a value. A secret is not shown.
func badValue(flag *kong.Flag, value any, err error) string {
	if isSecret(flag.Target.Type()) {
		return "bad value: " + err.Error()
	}
	shown := value
	if elements, ok := value.(list); ok {
		shown = strings.Join(elements, ", ")
	}
	return redact(fmt.Sprintf("bad value %q: %v", shown, err))
}

// userinfo matches the credentials in a URL. They never hold a slash unescaped,
// and may hold a comma, so in a list of URLs the match ends at the right host.
var userinfo = regexp.MustCompile(`://[^/?#\s"]+@`)

// redact hides the credentials of every URL in s.
func redact(s string) string {
	return userinfo.ReplaceAllLiteralString(s, "://"+mask+"@")
}

// isSecret reports whether t is a [Secret] or holds some.
func isSecret(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return isSecret(t.Elem())
	}
	return t == reflect.TypeFor[Secret]()
}

// readsFiles reports whether decoding a value of flag looks at the disk. Such
// values are only checked for the selected command: one configuration file may
// serve several hosts.
func readsFiles(flag *kong.Flag) bool {
	switch flag.Tag.Type {
	case "existingfile", "existingdir", "filecontent":
		return true
	}
	switch flag.Target.Interface().(type) {
	case *os.File, kong.FileContentFlag, kong.NamedFileContentFlag:
		return true
	}
	return false
}
