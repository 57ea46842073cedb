// Checks histories of a replicated store for linearizability, one file each.
//
// A line of a file is an operation as JSON. Its times are microseconds of one clock; of an operation whose outcome nobody learned
// only the first is there.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Client   int     `json:"client"`
	Kind     string  `json:"kind"` // put, get, compare
	Key      string  `json:"key"`
	Value    string  `json:"value"`
	Expected *string `json:"expected"`
	Previous *string `json:"previous"` // what was found
	Stored   bool    `json:"stored"`
	Call     int64   `json:"call"`
	Return   *int64  `json:"return"`
}

type text struct {
	is    bool
	value string
}

func of(value *string) text {
	if value == nil {
		return text{}
	}
	return text{true, *value}
}

// Each key by itself: a history is linearizable if it is so for each.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, one := range history {
			key := one.Input.(operation).Key
			byKey[key] = append(byKey[key], one)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() interface{} { return text{} },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		now, done := state.(text), input.(operation)
		known := done.Return != nil
		fits := !known || of(done.Previous) == now
		switch done.Kind {
		case "get":
			return fits, now
		case "put":
			return fits, text{true, done.Value}
		case "compare":
			stores := of(done.Expected) == now
			if known && stores != done.Stored {
				return false, now
			}
			if stores {
				now = text{true, done.Value}
			}
			return fits, now
		}
		return false, now
	},
}

func read(name string) ([]operation, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []operation
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one operation
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, err
		}
		history = append(history, one)
	}
	return history, lines.Err()
}

// What is to be checked of a history, and how many of its outcomes nobody learned.
//
// Of those, reads and values that no other operation has found or asked for are left out. They make no difference, since no two values
// are equal: such an operation may come after all others; and where it comes earlier, only others of unknown outcome see it before it is
// overwritten. Each that is left in doubles the ways to order the others.
func relevant(history []operation) ([]porcupine.Operation, int) {
	seen := map[string]bool{}
	for _, one := range history {
		for _, value := range []*string{one.Previous, one.Expected} {
			if value != nil {
				seen[*value] = true
			}
		}
	}
	var kept []porcupine.Operation
	unknown := 0
	for _, one := range history {
		end := int64(math.MaxInt64)
		if one.Return != nil {
			end = *one.Return
		} else {
			unknown++
			if one.Kind == "get" || !seen[one.Value] {
				continue
			}
		}
		kept = append(kept, porcupine.Operation{
			ClientId: one.Client, Input: one, Call: one.Call, Output: nil, Return: end,
		})
	}
	return kept, unknown
}

func main() {
	failed := 0
	total, unknownTotal := 0, 0
	for _, name := range os.Args[1:] {
		history, err := read(name)
		if err != nil {
			fmt.Println(name, err)
			os.Exit(2)
		}
		kept, unknown := relevant(history)
		total += len(history)
		unknownTotal += unknown
		result := porcupine.CheckOperationsTimeout(model, kept, 2*time.Minute)
		if result != porcupine.Ok {
			failed++
			fmt.Printf("%s: %s, %d operations\n", name, result, len(history))
		}
	}
	fmt.Printf("%d histories, %d operations, %d of unknown outcome: %d not found to be linearizable\n",
		len(os.Args)-1, total, unknownTotal, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
