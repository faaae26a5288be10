package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Where up looks for engines, on loopback.
const (
	searchFirst   = 8000
	searchLast    = 8010
	searchTimeout = 500 * time.Millisecond
)

// searchEngines looks for OpenAI-compatible servers on the usual ports.
func searchEngines(ctx context.Context) []namedEngine {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	found := make([]bool, searchLast-searchFirst+1)
	var wg sync.WaitGroup
	for i := range found {
		wg.Go(func() { found[i] = listsModels(ctx, fmt.Sprintf("http://127.0.0.1:%d", searchFirst+i)) })
	}
	wg.Wait()
	var list []namedEngine
	for i, ok := range found {
		if ok {
			list = append(list, namedEngine{fmt.Sprintf("engine-%d", searchFirst+i), fmt.Sprintf("http://127.0.0.1:%d", searchFirst+i)})
		}
	}
	return list
}

func listsModels(ctx context.Context, base string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/models", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&list) == nil && len(list.Data) > 0
}
