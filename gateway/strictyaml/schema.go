package strictyaml

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Schema returns a JSON Schema (draft 2020-12) of the files that Read decodes into
// the value that into points to. Values in it are the defaults. meanings has what it
// tells about keys: a key is a dotted path in which NAME is a name of the user's choice
// and [] an element of a list.
func (r *Reader) Schema(meanings map[string]string, into any) map[string]any {
	b := &schemaBuilder{r, meanings, map[string]any{}}
	schema := b.section("", reflect.ValueOf(into).Elem())
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["type"] = "object" // an empty file is an error
	schema["$defs"] = b.defs
	return schema
}

type schemaBuilder struct {
	*Reader
	meanings map[string]string
	defs     map[string]any // schemas of policies and the like, which contain themselves
}

// hasVariablePattern matches a string with a ${NAME}, which can give a value of another type.
const hasVariablePattern = `\$\{`

const durationPattern = `^\+?([0-9]+\.?[0-9]*|\.[0-9]+)(d|h|m|s|ms|us|µs|ns)` +
	`(([0-9]+\.?[0-9]*|\.[0-9]+)(h|m|s|ms|us|µs|ns))*$|^0$|` + hasVariablePattern

// value follows the cases of decoder.content. v is the default.
func (b *schemaBuilder) value(key string, v reflect.Value) map[string]any {
	t, kind := v.Type(), v.Kind()
	switch {
	case t == durationType:
		return map[string]any{
			"type": []string{"string", "integer"}, "pattern": durationPattern, "minimum": 0, "maximum": 0,
		}
	case b.Parse[t] != nil:
		return map[string]any{"type": "string"}
	case b.Either[t] != "":
		return b.either(key, t)
	case kind == reflect.Slice && b.Either[t.Elem()] != "" && !b.Listed[t.Elem()]:
		one := b.either(key, t.Elem())
		return map[string]any{"oneOf": []any{one, map[string]any{"type": "array", "items": one}}}
	case kind == reflect.String:
		return map[string]any{"type": "string"}
	case kind == reflect.Bool:
		return map[string]any{"type": []string{"boolean", "string"}, "pattern": hasVariablePattern}
	case kind == reflect.Int || kind == reflect.Int64:
		return map[string]any{"type": []string{"integer", "string"}, "minimum": 0, "pattern": hasVariablePattern}
	case kind == reflect.Float64:
		return map[string]any{"type": []string{"number", "string"}, "minimum": 0, "pattern": hasVariablePattern}
	case kind == reflect.Slice:
		return map[string]any{"type": "array", "items": b.element(key+"[]", t.Elem())}
	case kind == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": b.element(key+".NAME", t.Elem())}
	case kind == reflect.Struct:
		return b.section(key, v)
	case kind == reflect.Pointer && b.contained(t):
		return b.reference(key, t)
	case kind == reflect.Pointer:
		section := b.element(key, t.Elem())
		section["type"] = "object" // not null
		return section
	}
	panic(fmt.Sprintf("strictyaml: no schema for %s of type %s", key, t))
}

// element is the schema of an element of a list or a map, with its own defaults.
func (b *schemaBuilder) element(key string, t reflect.Type) map[string]any {
	v := reflect.New(t).Elem()
	setDefaults(v)
	return b.value(key, v)
}

// choice is the schema of a value that must be one of words, or of a list of them.
func (b *schemaBuilder) choice(v reflect.Value, words []string) map[string]any {
	if v.Kind() == reflect.Slice {
		return map[string]any{"type": "array", "items": b.choice(reflect.Value{}, words)}
	}
	if v.IsValid() && v.Len() == 0 {
		words = append([]string{""}, words...) // a default is valid
	}
	return map[string]any{"anyOf": []any{
		map[string]any{"enum": words},
		map[string]any{"type": "string", "pattern": hasVariablePattern},
	}}
}

// section is the schema of a mapping whose keys are the fields of a struct.
func (b *schemaBuilder) section(key string, v reflect.Value) map[string]any {
	properties, exclusive := map[string]any{}, []any{}
	fields := fieldsOf(v.Type())
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f, at := fields[name], Join(key, name)
		if f.file {
			base := strings.TrimSuffix(name, "_file")
			meaning := fmt.Sprintf("A file that contains only the value of `%s`.", base)
			properties[name] = map[string]any{"type": "string", "description": meaning}
			exclusive = append(exclusive, map[string]any{"not": map[string]any{"required": []string{base, name}}})
			continue
		}
		property := b.property(at, v.Field(f.index), f.words)
		if meaning := b.meanings[at]; meaning != "" {
			property["description"] = meaning
		}
		if value := schemaDefault(v.Field(f.index)); value != nil {
			property["default"] = value
		}
		properties[name] = property
	}
	schema := map[string]any{
		"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties,
	}
	if len(exclusive) > 0 {
		schema["allOf"] = exclusive
	}
	return schema
}

// property is the schema of the value of a key.
func (b *schemaBuilder) property(key string, v reflect.Value, words []string) map[string]any {
	if words != nil {
		return b.choice(v, words)
	}
	return b.value(key, v)
}

// either is the schema of an Either type.
func (b *schemaBuilder) either(key string, t reflect.Type) map[string]any {
	for i := range t.NumField() {
		if field := t.Field(i).Type; field.Kind() == reflect.Pointer {
			return map[string]any{"oneOf": []any{map[string]any{"type": "string"}, b.reference(key, field)}}
		}
	}
	panic(fmt.Sprintf("strictyaml: %s has no field for a mapping", t))
}

// contained reports whether a pointer type is the mapping of an Either type.
func (b *schemaBuilder) contained(pointer reflect.Type) bool {
	for t := range b.Either {
		for i := range t.NumField() {
			if t.Field(i).Type == pointer {
				return true
			}
		}
	}
	return false
}

// reference refers to the schema of a struct in defs.
func (b *schemaBuilder) reference(key string, pointer reflect.Type) map[string]any {
	name := pointer.Elem().String()
	if _, known := b.defs[name]; !known {
		b.defs[name] = nil // in progress
		section := b.section(b.described(key, pointer.Elem()), reflect.New(pointer.Elem()).Elem())
		section["type"] = "object"
		b.defs[name] = section
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// described returns the first key, in the order of the alphabet, whose values have that type
// and a meaning for each of its keys. If there is none, it returns key, which has such a value.
func (b *schemaBuilder) described(key string, t reflect.Type) string {
	fields := slices.Sorted(maps.Keys(fieldsOf(t)))
	for _, one := range slices.Sorted(maps.Keys(b.meanings)) {
		at, found := strings.CutSuffix(one, "."+fields[0])
		if found && !slices.ContainsFunc(fields, func(name string) bool { return b.meanings[Join(at, name)] == "" }) {
			return at
		}
	}
	return key
}

// schemaDefault returns a default as it is written, or nil if there is none: many
// strings, lists and durations that are zero get their value from other keys.
func schemaDefault(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		if value == 0 {
			return nil
		}
		s := value.String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(s, zero) {
				s = s[:len(s)-2]
			}
		}
		return s
	case fmt.Stringer:
		if v.IsZero() || v.Kind() != reflect.Pointer {
			return nil
		}
		return value.String()
	}
	switch {
	case v.Kind() == reflect.Bool, v.Kind() == reflect.Int, v.Kind() == reflect.Int64, v.Kind() == reflect.Float64:
		return v.Interface()
	case v.Kind() == reflect.String && v.Len() > 0, v.Kind() == reflect.Slice && v.Len() > 0:
		return v.Interface()
	}
	return nil
}
