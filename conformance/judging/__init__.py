"""One launch file judged under several schedules within a time budget: values, races, stages."""
