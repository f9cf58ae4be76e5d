// Which process of a run this one is, by the variables of each launcher.

#include <fulgurite/distributed/place.hpp>

#include <map>
#include <string>

#include <catch2/catch_test_macros.hpp>

using namespace fulgurite;

namespace {

using Variables = std::map<std::string, std::string>;

auto place_of(Variables const& all) {
  auto const variable = [&](char const* name) {
    auto const found = all.find(name);
    return found == all.end() ? nullptr : found->second.c_str();
  };
  return distributed::Environment(variable).place();
}
std::string refusal(Variables const& all) {
  try {
    place_of(all);
  } catch (Error const& error) {
    CHECK(error.identifier() == "fulgurite.distributed.environment");
    return error.what();
  }
  return "nothing was refused";
}
bool has(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

Variables const torchrun{{"RANK", "5"},        {"WORLD_SIZE", "8"},   {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "a"}, {"MASTER_PORT", "700"}};

}  // namespace

TEST_CASE("place: nothing is set, and SLURM's variables outside of srun say nothing") {
  CHECK(!place_of({}));
  CHECK(!place_of({{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
  CHECK(!place_of({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}));
}

TEST_CASE("place: torchrun's variables, and its agent's store") {
  auto const place = place_of(torchrun).value();
  CHECK(place.launcher == distributed::Launcher::torchrun);
  CHECK(place.rank == 5);
  CHECK(place.world == 8);
  CHECK(place.local_rank == 1);
  CHECK(!place.one_machine());
  CHECK(place.host == "a");
  CHECK(place.port == 700);
  CHECK(!place.agent_has_store);

  auto local = torchrun;
  local["LOCAL_WORLD_SIZE"] = "8";
  CHECK(place_of(local)->host == "127.0.0.1");
  local["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  local["TORCHELASTIC_RESTART_COUNT"] = "3";
  CHECK(place_of(local)->host == "a");
  CHECK(place_of(local)->agent_has_store);
  CHECK(place_of(local)->restart == 3);
}

TEST_CASE("place: what is started in a shell that SLURM keeps is no rank") {
  Variables all{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"},  {"SLURM_LOCALID", "0"},   {"SLURM_NTASKS", "4"},
                {"SLURM_NNODES", "1"},  {"SLURM_JOB_ID", "81"}, {"SLURM_NODELIST", "one"}};
  CHECK(place_of(all));
  for (auto const* name : {"bash", "interactive"}) {
    all["SLURM_JOB_NAME"] = name;
    CHECK(!place_of(all));
  }
  all["SLURM_JOB_NAME"] = "train";
  CHECK(place_of(all));
}

TEST_CASE("place: SLURM's steps meet on their first node, at a port of their job") {
  Variables all{{"SLURM_STEP_ID", "0"},   {"SLURM_PROCID", "3"},         {"SLURM_LOCALID", "1"},
                {"SLURM_NTASKS", "4"},    {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_NODELIST", "gpu[03-07,9],cpu1"},
                {"SLURM_JOB_ID", "81234"}};
  auto const place = place_of(all).value();
  CHECK(place.launcher == distributed::Launcher::slurm);
  CHECK(place.rank == 3);
  CHECK(place.local_world == 2);
  CHECK(place.host == "gpu03");
  CHECK(place.port == 16234);
  for (auto const& [list, first] : {std::pair{"gpu[1-4]-ib", "gpu1-ib"}, {"rack[1-2]n[03-4],one", "rack1n03"}}) {
    all["SLURM_NODELIST"] = list;
    CHECK(place_of(all)->host == first);
  }
  all["SLURM_NODELIST"] = "one,two";
  all["MASTER_PORT"] = "99";
  CHECK(place_of(all)->host == "one");
  CHECK(place_of(all)->port == 99);
  all["SLURM_STEP_NUM_NODES"] = "3";
  CHECK(has(refusal(all), "4 tasks on 3 nodes"));
}

TEST_CASE("place: MPI's processes need MASTER_ADDR where they lie on several machines") {
  Variables all{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  CHECK(place_of(all)->launcher == distributed::Launcher::mpi);
  CHECK(place_of(all)->host == "127.0.0.1");
  CHECK(place_of(all)->port == 29500);
  all["MPI_LOCALRANKID"] = "0";
  all["MPI_LOCALNRANKS"] = "1";
  CHECK(has(refusal(all), "MASTER_ADDR"));
  all["MASTER_ADDR"] = "b";
  CHECK(place_of(all)->host == "b");
}

TEST_CASE("place: mpirun's processes are its ranks in SLURM's shells and steps, too, and srun's are SLURM's") {
  Variables const shell{{"SLURM_JOB_NAME", "bash"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"},
                        {"SLURM_LOCALID", "0"},     {"SLURM_NTASKS", "1"},  {"SLURM_NNODES", "1"}};
  Variables const open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  Variables const mpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  for (auto all : {open_mpi, mpich}) {
    all.insert(shell.begin(), shell.end());
    auto const place = place_of(all);
    REQUIRE(place);
    CHECK(place->launcher == distributed::Launcher::mpi);
    CHECK(place->rank == 1);
  }
  Variables step{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"},     {"SLURM_LOCALID", "1"},
                 {"SLURM_NTASKS", "2"},  {"SLURM_NNODES", "1"},     {"PMI_RANK", "1"},
                 {"PMI_SIZE", "2"},      {"SLURM_NODELIST", "one"}, {"SLURM_JOB_ID", "81"}};
  CHECK(place_of(step)->launcher == distributed::Launcher::slurm);
}

TEST_CASE("place: what cannot be is refused by the name of its variable") {
  for (auto const* name : {"WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT", "MASTER_ADDR"}) {
    auto without = torchrun;
    without.erase(name);
    CHECK(has(refusal(without), name));
  }
  for (auto const* wrong : {"8", "-1", "x", "1x", "99999999999"}) {
    auto all = torchrun;
    all["RANK"] = wrong;
    CHECK(has(refusal(all), (std::string("RANK is '") + wrong + "'").c_str()));
  }
}
